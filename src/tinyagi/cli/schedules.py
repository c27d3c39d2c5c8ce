"""`tinyagi schedule`: messages that are sent when they are due."""

from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.asking import answer, confirm
from tinyagi.cli.context import ask
from tinyagi.cli.edge import WrongCall
from tinyagi.cli.options import Json, Yes, examples
from tinyagi.cli.screen import at, print_json, print_table, say

if TYPE_CHECKING:
    from tinyagi.api.schedules import Schedule
    from tinyagi.client.client import Client

app = typer.Typer(help="Send messages at certain times.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The label or the id of a schedule.")]


@app.command("list", epilog=examples("tinyagi schedule list"))
def list_schedules(ctx: typer.Context, as_json: Json = False) -> None:
    """List all schedules."""
    schedules = ask(ctx, lambda client: client.schedules.all())
    if as_json:
        print_json(schedules)
        return
    print_table(
        ("label", "agent", "when", "next", "message"),
        [(one.label, f"@{one.agent_id}", _when(one), at(one.next_at), one.message[:120]) for one in schedules],
        empty="There are no schedules. Add one: tinyagi schedule add",
    )


@app.command(
    "add",
    epilog=examples(
        'tinyagi schedule add --cron "0 9 * * 1-5" --agent coder -m "What is open?"',
        'tinyagi schedule add --at 2030-01-31T09:00 --agent coder -m "Happy new year"',
    ),
)
def add_schedule(
    ctx: typer.Context,
    cron: Annotated[str | None, typer.Option(help="Five fields: minute, hour, day, month, weekday.")] = None,
    moment: Annotated[str | None, typer.Option("--at", help="Once, at this time: 2030-01-31T09:00.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="An agent or a team.")] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="What it is told.")] = None,
    label: Annotated[str | None, typer.Option(help="What you call it; no two share one.")] = None,
    timezone: Annotated[str | None, typer.Option(help="Of the cron fields, such as Europe/Berlin.")] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Add it, but do not let it begin.")] = False,
    as_json: Json = False,
) -> None:
    """Send a message again and again, or once; asks for what the options leave open."""
    if cron is not None and moment is not None:
        raise WrongCall("A schedule has either --cron or --at.")
    if moment is None:
        cron = answer(cron, "--cron or --at", "When, as five cron fields", default=None)
    fields = {
        "agentId": answer(agent, "--agent", "To which agent or team").removeprefix("@"),
        "message": answer(message, "--message", "What it is told"),
        "cron": cron,
        "runAt": None if moment is None else _instant(moment),
        "label": label,
        "timezone": timezone,
        "enabled": not disabled,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    added = ask(ctx, lambda client: client.schedules.add(given))
    if as_json:
        print_json(added)
        return
    say(f"{added.label} is due next at {at(added.next_at) or 'no time'}.")


@app.command("remove", epilog=examples("tinyagi schedule remove morning --yes"))
def remove_schedule(ctx: typer.Context, schedule: Name, yes: Yes = False) -> None:
    """Remove a schedule."""

    async def remove(client: "Client") -> None:
        await client.schedules.delete((await _find(client, schedule)).id)

    confirm(f"Remove the schedule {schedule}?", yes=yes)
    ask(ctx, remove)
    say(f"{schedule} is removed.")


@app.command("enable", epilog=examples("tinyagi schedule enable morning"))
def enable(ctx: typer.Context, schedule: Name) -> None:
    """Let a schedule send again."""
    changed = _switch(ctx, schedule, enabled=True)
    say(f"{changed.label} is due next at {at(changed.next_at) or 'no time'}.")


@app.command("disable", epilog=examples("tinyagi schedule disable morning"))
def disable(ctx: typer.Context, schedule: Name) -> None:
    """Let a schedule send nothing until it is enabled."""
    say(f"{_switch(ctx, schedule, enabled=False).label} sends nothing more.")


def _switch(ctx: typer.Context, schedule: str, *, enabled: bool) -> "Schedule":
    async def switch(client: "Client") -> "Schedule":
        found = await _find(client, schedule)
        return await client.schedules.change(found.id, {"enabled": enabled})

    return ask(ctx, switch)


async def _find(client: "Client", name: str) -> "Schedule":
    schedules = await client.schedules.all()
    for one in schedules:
        if name in {one.label, one.id}:
            return one
    known = ", ".join(one.label for one in schedules) or "none"
    raise WrongCall(f"There is no schedule {name!r}. There are: {known}.")


def _when(schedule: "Schedule") -> str:
    if not schedule.enabled:
        return "disabled"
    zone = f" ({schedule.timezone})" if schedule.timezone else ""
    return f"{schedule.cron}{zone}" if schedule.cron else "once"


def _instant(text: str) -> str:
    """A date with its offset; without one it is a time of this machine."""
    from datetime import datetime  # noqa: PLC0415 - see cli.context

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise WrongCall(f"--at: {text!r} is no date; use one like 2030-01-31T09:00.") from None
    return (moment if moment.tzinfo else moment.astimezone()).isoformat()
