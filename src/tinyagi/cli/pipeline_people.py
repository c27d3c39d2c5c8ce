"""`tinyagi pipeline forget` and `replay`: what people once wrote, erased or sent again."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from tinyagi.cli.asking import confirm
from tinyagi.cli.context import place_of
from tinyagi.cli.edge import WrongCall
from tinyagi.cli.options import Json, Yes, examples
from tinyagi.cli.pipeline import extra_needed, keeping
from tinyagi.cli.pipeline_progress import Bars
from tinyagi.cli.screen import note, print_json, print_table, say

if TYPE_CHECKING:
    from tinyagi.pipeline.forget.forgetting import Forgotten, Found
    from tinyagi.pipeline.replay import Replay

FORGET_EXAMPLES: Final = examples(
    "tinyagi pipeline forget --sender-id 4711 --channel telegram", "tinyagi pipeline forget --sender Ada --yes"
)
REPLAY_EXAMPLES: Final = examples(
    "tinyagi pipeline replay --status dead --agent coder", "tinyagi pipeline replay --id 17 --id 18 --yes"
)


def forget(
    ctx: typer.Context,
    sender: Annotated[str | None, typer.Option("--sender", help="The person's name, as messages have it.")] = None,
    sender_id: Annotated[str | None, typer.Option("--sender-id", help="The channel's id of the person.")] = None,
    channel: Annotated[str | None, typer.Option("--channel", help="Where they wrote.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go and change nothing.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Erase a person: the texts of their conversations go, their name becomes a pseudonym; figures stay.

    Everywhere: database, lake, logs, backups, chat files, attachments. The daemon has to be stopped for it.
    """
    if not sender and not sender_id:
        raise WrongCall("Say whom to forget: --sender NAME or --sender-id ID.")
    if not (yes or dry_run):
        # Asked before Spark starts: whoever cannot answer need not wait for it.
        confirm("Everything this person wrote is erased for good. Go on?", yes=False)
    from importlib.metadata import version  # noqa: PLC0415

    from tinyagi.daemon.pidfile import held  # noqa: PLC0415

    with held(place_of(ctx).home, version("tinyagi")), keeping(ctx) as keeper, Bars() as bars:
        if dry_run:
            _tell_scope(keeper.find_person(bars, channel=channel, sender=sender, sender_id=sender_id), as_json=as_json)
        else:
            _tell_erased(keeper.forget(bars, channel=channel, sender=sender, sender_id=sender_id), as_json=as_json)


def _tell_scope(found: "Found", *, as_json: bool) -> None:
    scope = found.scope
    if as_json:
        print_json({"conversations": sorted(scope.conversations), "messages": len(scope.messages)})
        return
    say(f"{len(scope.conversations)} conversations with {len(scope.messages)} messages would be erased.")


def _tell_erased(done: "Forgotten", *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    say(f"Erased: {done.conversations} conversations. The person is {done.pseudonym} now.")
    print_table(("table", "rows#"), [(name, rows) for name, rows in done.rows.items() if rows], empty="")
    for path in done.removed:
        say(f"deleted  {path}")
    for sentence in done.remaining:
        note(f"Not reached: {sentence}")


def replay(
    ctx: typer.Context,
    ids: Annotated[list[int] | None, typer.Option("--id", help="A message by its number; may be repeated.")] = None,
    conversation: Annotated[str | None, typer.Option("--conversation", help="Of this conversation.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="That went to this agent.")] = None,
    status: Annotated[Literal["dead", "completed"] | None, typer.Option("--status", help="With this end.")] = None,
    error: Annotated[str | None, typer.Option("--error", help="A fingerprint, as gold.dead_letters has it.")] = None,
    since: Annotated[datetime | None, typer.Option("--since", help="That came then or later, in UTC.")] = None,
    until: Annotated[datetime | None, typer.Option("--until", help="That came before, in UTC.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="Send them to this agent instead.")] = None,
    most: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="How many at most.")] = 100,
    name: Annotated[str | None, typer.Option("--name", help="Of this replay; another name sends again.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Send them; without it they are only listed.")] = False,
    as_json: Json = False,
) -> None:
    """Send messages again that people once sent, chosen from the lake. Only lists them without --yes.

    The answers go to the sender `replay` on the channel `api`, never to the person. To repeat a replay sends nothing
    twice.
    """
    with extra_needed():
        from tinyagi.domain.messages import Status  # noqa: PLC0415 - heavy, with what follows
        from tinyagi.pipeline.lake import Lake  # noqa: PLC0415
        from tinyagi.pipeline.replay import Selection, plan_replay  # noqa: PLC0415
    selection = Selection(
        ids=tuple(ids or ()),
        conversation=conversation,
        agent=agent,
        status=None if status is None else Status(status),
        fingerprint=error,
        since=_instant(since),
        until=_instant(until),
    )
    plan = plan_replay(Lake(place_of(ctx).home.lake), selection, agent=to, replay_id=name, most=most)
    if not yes:
        _tell_plan(plan, as_json=as_json)
        return
    with keeping(ctx) as keeper:
        done = keeper.send(plan)
    if as_json:
        print_json({"replayId": plan.replay_id, "sent": done.sent, "already": done.already, "refused": plan.refused})
        return
    say(f"Sent {done.sent} messages again, {done.already} were there already. This replay is {plan.replay_id}.")


def _tell_plan(plan: "Replay", *, as_json: bool) -> None:
    if as_json:
        print_json({"replayId": plan.replay_id, "letters": plan.letters, "refused": plan.refused})
        return
    print_table(
        ("message#", "to", "text"),
        [(letter.original, f"@{letter.to}", letter.text[:120]) for letter in plan.letters],
        empty="No message matches.",
    )
    for number, why in plan.refused.items():
        note(f"Not {number}: {why}.")
    if plan.letters:
        note(f"Nothing was sent. The same command with --yes sends these {len(plan.letters)} again.")


def _instant(told: datetime | None) -> int | None:
    return None if told is None else int(told.replace(tzinfo=UTC).timestamp() * 1000)
