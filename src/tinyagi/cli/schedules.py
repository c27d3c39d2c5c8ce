"""`tinyagi schedule`: lists, adds, switches and removes scheduled messages."""

from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.context import call_daemon
from tinyagi.cli.options import Json, Yes, examples
from tinyagi.cli.terminal import WrongCall, at, confirm, moment, option_or_prompt, print_json, print_table, say

if TYPE_CHECKING:
    from tinyagi.api.schedules import Schedule
    from tinyagi.client.client import AsyncClient

app = typer.Typer(help="Send messages at certain times.", no_args_is_help=True)

ScheduleArgument = Annotated[str, typer.Argument(help="The label or the id of a schedule.")]


@app.command("list", epilog=examples("tinyagi schedule list"))
def list_schedules(ctx: typer.Context, as_json: Json = False) -> None:
    """List all schedules."""
    schedules = call_daemon(ctx, lambda client: client.schedules.all())
    if as_json:
        print_json(schedules)
        return
    print_table(
        ("label!", "agent!", "when!", "?next!", "??message…"),
        [(one.label, f"@{one.agent_id}", _when(one), _next(one), one.message[:120]) for one in schedules],
        empty="There are no schedules. Add one: tinyagi schedule add",
    )


@app.command(
    "add",
    epilog=examples(
        'tinyagi schedule add --cron "0 9 * * 1-5" --agent coder -m "What is open?"',
        'tinyagi schedule add --at 2030-01-31T09:00 --agent coder -m "Happy new year"',
        'tinyagi schedule add --cron "0 8 * * *" --agent coder -m "Report" --channel telegram --to 12345',
    ),
)
def add_schedule(
    ctx: typer.Context,
    cron: Annotated[str | None, typer.Option(help="Five fields: minute, hour, day, month, weekday.")] = None,
    moment: Annotated[str | None, typer.Option("--at", help="Once, at this time: 2030-01-31T09:00.")] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="An agent or a team.")] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="The text of the message.")] = None,
    label: Annotated[str | None, typer.Option(help="Its unique name.")] = None,
    channel: Annotated[
        str | None, typer.Option(help="The chat platform that gets the answers: telegram, discord, …")
    ] = None,
    person: Annotated[
        str | None, typer.Option("--to", help="The chat that gets them: a sender id of `tinyagi pairing approved`.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="The time zone of the cron fields, such as Europe/Berlin.")
    ] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Add it disabled.")] = False,
    as_json: Json = False,
) -> None:
    """Schedule a message, once or repeatedly; asks for missing options."""
    if cron is not None and moment is not None:
        raise WrongCall("A schedule has either --cron or --at.")
    if moment is None:
        cron = option_or_prompt(cron, "--cron or --at", "When, as five cron fields", default=None)
    fields = {
        "agentId": option_or_prompt(agent, "--agent", "To which agent or team").removeprefix("@"),
        "message": option_or_prompt(message, "--message", "The text of the message"),
        "cron": cron,
        "runAt": None if moment is None else _instant(moment),
        "label": label,
        "channel": channel,
        "senderId": person,
        "timezone": timezone,
        "enabled": not disabled,
    }
    present = {name: value for name, value in fields.items() if value is not None}
    added = call_daemon(ctx, lambda client: client.schedules.add(present))
    if as_json:
        print_json(added)
        return
    say(f"Added schedule {added.label}. Next run: {at(added.next_at) or 'none'}")


@app.command("remove", epilog=examples("tinyagi schedule remove morning --yes"))
def remove_schedule(ctx: typer.Context, schedule: ScheduleArgument, yes: Yes = False) -> None:
    """Remove a schedule."""

    async def remove(client: "AsyncClient") -> None:
        await client.schedules.delete((await _find(client, schedule)).id)

    confirm(f"Remove the schedule {schedule}?", yes=yes)
    call_daemon(ctx, remove)
    say(f"Removed schedule {schedule}.")


@app.command("enable", epilog=examples("tinyagi schedule enable morning"))
def enable(ctx: typer.Context, schedule: ScheduleArgument) -> None:
    """Enable a schedule."""
    changed = _switch(ctx, schedule, enabled=True)
    say(f"Enabled schedule {changed.label}. Next run: {at(changed.next_at) or 'none'}")


@app.command("disable", epilog=examples("tinyagi schedule disable morning"))
def disable(ctx: typer.Context, schedule: ScheduleArgument) -> None:
    """Disable a schedule until it is enabled again."""
    say(f"Disabled schedule {_switch(ctx, schedule, enabled=False).label}.")


def _switch(ctx: typer.Context, schedule: str, *, enabled: bool) -> "Schedule":
    async def switch(client: "AsyncClient") -> "Schedule":
        found = await _find(client, schedule)
        return await client.schedules.change(found.id, {"enabled": enabled})

    return call_daemon(ctx, switch)


async def _find(client: "AsyncClient", name: str) -> "Schedule":
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


def _next(schedule: "Schedule") -> str:
    return "" if schedule.next_at is None else moment(round(schedule.next_at.timestamp() * 1000))


def _instant(text: str) -> str:
    """The date in ISO format with its offset; without one, in this machine's time zone."""
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise WrongCall(f"--at: {text!r} is not a date; use one like 2030-01-31T09:00.") from None
    return (moment if moment.tzinfo else moment.astimezone()).isoformat()
