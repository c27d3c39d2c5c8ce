"""`tinyagi pipeline forget`, `replay` and `report`: commands on the data of the lake."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from tinyagi.cli.context import installation
from tinyagi.cli.options import Json, Yes, examples
from tinyagi.cli.pipeline import ProgressBars, open_lake, requires_pipeline_extra
from tinyagi.cli.terminal import WrongCall, confirm, note, print_json, print_table, say, show

if TYPE_CHECKING:
    from tinyagi.pipeline.forget.person import ErasurePlan, ErasureReport
    from tinyagi.pipeline.manage.replay import Replay
    from tinyagi.pipeline.report.model import Report

FORGET_EXAMPLES: Final = examples(
    "tinyagi pipeline forget --sender-id 4711 --channel telegram", "tinyagi pipeline forget --sender Ada --yes"
)
REPLAY_EXAMPLES: Final = examples(
    "tinyagi pipeline replay --status dead --agent coder", "tinyagi pipeline replay --id 17 --id 18 --yes"
)

REPORT_EXAMPLES: Final = examples(
    "tinyagi pipeline report", "tinyagi pipeline report --days 30 --html report.html", "tinyagi pipeline report --json"
)


def forget(
    ctx: typer.Context,
    sender: Annotated[str | None, typer.Option("--sender", help="The person's name as in the messages.")] = None,
    sender_id: Annotated[str | None, typer.Option("--sender-id", help="The person's id on the channel.")] = None,
    channel: Annotated[str | None, typer.Option("--channel", help="The channel they wrote on.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be erased and change nothing.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Erase a person: delete the texts of their conversations, replace their name by a pseudonym, keep the figures.

    Covers database, lake, logs, backups, chat files and attachments. The daemon has to be stopped.
    """
    if not sender and not sender_id:
        raise WrongCall("Name the person: --sender NAME or --sender-id ID.")
    if not (yes or dry_run):
        # Ask before Spark starts, which takes seconds.
        confirm("Erase everything this person wrote for good?", yes=False)
    from importlib.metadata import version

    from tinyagi.daemon.pidfile import hold_pid_file

    with hold_pid_file(installation(ctx).home, version("tinyagi")), open_lake(ctx) as service, ProgressBars() as bars:
        if dry_run:
            _print_scope(
                service.find_person(bars, channel=channel, sender=sender, sender_id=sender_id), as_json=as_json
            )
        else:
            _print_erased(service.forget(bars, channel=channel, sender=sender, sender_id=sender_id), as_json=as_json)


def _print_scope(found: "ErasurePlan", *, as_json: bool) -> None:
    scope = found.scope
    if as_json:
        print_json({"conversations": sorted(scope.conversations), "messages": len(scope.messages)})
        return
    say(f"{len(scope.conversations)} conversations with {len(scope.messages)} messages would be erased.")


def _print_erased(done: "ErasureReport", *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    say(f"Erased: {done.conversations} conversations. The person is now {done.pseudonym}.")
    print_table(("table", "rows#"), [(name, rows) for name, rows in done.rows.items() if rows], empty="")
    for path in done.removed:
        say(f"deleted  {path}")
    for sentence in done.remaining:
        note(f"Not reached: {sentence}")


def replay(
    ctx: typer.Context,
    ids: Annotated[list[int] | None, typer.Option("--id", help="A message by its number; may be repeated.")] = None,
    conversation: Annotated[str | None, typer.Option("--conversation", help="Only from this conversation.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Only messages to this agent.")] = None,
    status: Annotated[
        Literal["dead", "completed"] | None, typer.Option("--status", help="Only messages with this status.")
    ] = None,
    error: Annotated[str | None, typer.Option("--error", help="An error fingerprint from gold.dead_letters.")] = None,
    since: Annotated[datetime | None, typer.Option("--since", help="Received at this time or later, in UTC.")] = None,
    until: Annotated[datetime | None, typer.Option("--until", help="Received before this time, in UTC.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="Send them to this agent instead.")] = None,
    most: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="Replay at most this many.")] = 100,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of this replay; a new name sends the messages again.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Send the messages; without it they are only listed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Send messages of people again, selected from the lake. Without --yes, only lists them.

    The answers go to the sender `replay` on the channel `api`, never to the person. Repeating a replay sends nothing
    twice.
    """
    with requires_pipeline_extra():
        from tinyagi.domain.messages import Status
        from tinyagi.pipeline.lake import Lake
        from tinyagi.pipeline.manage.replay import Selection, plan_replay
    selection = Selection(
        ids=tuple(ids or ()),
        conversation=conversation,
        agent=agent,
        status=None if status is None else Status(status),
        fingerprint=error,
        since=_instant(since),
        until=_instant(until),
    )
    plan = plan_replay(Lake(installation(ctx).home.lake), selection, agent=to, replay_id=name, most=most)
    if not yes:
        _print_plan(plan, as_json=as_json)
        return
    with open_lake(ctx) as service:
        done = service.send(plan)
    if as_json:
        print_json({"replayId": plan.replay_id, "sent": done.sent, "already": done.already, "refused": plan.refused})
        return
    say(f"Sent {done.sent} messages again; {done.already} had been sent before. This replay is {plan.replay_id}.")


def _print_plan(plan: "Replay", *, as_json: bool) -> None:
    if as_json:
        print_json({"replayId": plan.replay_id, "letters": plan.letters, "refused": plan.refused})
        return
    print_table(
        ("message#", "to", "text"),
        [(letter.original, f"@{letter.to}", letter.text[:120]) for letter in plan.letters],
        empty="No message matches.",
    )
    for number, why in plan.refused.items():
        note(f"Message {number} is left out: {why}.")
    if plan.letters:
        note(f"Nothing was sent. The same command with --yes sends these {len(plan.letters)} again.")


def _instant(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.replace(tzinfo=UTC).timestamp() * 1000)


def report(
    ctx: typer.Context,
    days: Annotated[int, typer.Option("--days", "-d", min=1, max=3660, help="Number of days, including today.")] = 7,
    html: Annotated[
        Path | None, typer.Option("--html", dir_okay=False, help="Write a page with charts to this file instead.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Report on the last days: runs, waiting times, costs, hand-offs, dead messages.

    The report shows the lake as of the last `tinyagi pipeline run`. Days are in UTC.
    """
    with requires_pipeline_extra():
        found = _read_report(ctx, days)
        if html is not None:
            _write_page(html, found)
    if as_json:
        print_json(found)
    if html is not None:
        # With --json, stdout has only JSON.
        (note if as_json else say)(f"The report is in {html.absolute()}")
        for one in found.notes:
            note(one)
    elif not as_json:
        _show_report(found)


def _read_report(ctx: typer.Context, days: int) -> "Report":
    from tinyagi.pipeline.lake import Lake
    from tinyagi.pipeline.report.read_report import read_report

    return read_report(Lake(installation(ctx).home.lake), days=days, now=time.time_ns() // 1_000_000)


def _write_page(path: Path, found: "Report") -> None:
    from tinyagi.pipeline.report.page import render_page
    from tinyagi.system.files import put_in_place, write_aside

    page = render_page(found).encode()
    try:
        aside = write_aside(path, page)
        try:
            put_in_place(aside, path)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise WrongCall(f"The page cannot be written to {path}: {error.strerror}. Name another file.") from error


def _show_report(found: "Report") -> None:
    from tinyagi.pipeline.report.terminal import drawn

    for part in drawn(found):
        show(part)
