"""`tinyagi queue`: how full it is, what died, and a hand on lanes and runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.asking import confirm
from tinyagi.cli.context import ask
from tinyagi.cli.options import Agent, Json, Limit, Yes, examples
from tinyagi.cli.screen import duration, print_json, print_table, say, when

if TYPE_CHECKING:
    from tinyagi.api.queue import LaneStatus, QueueStatus, RunningMessage
    from tinyagi.client.client import Client

app = typer.Typer(help="See the queue; retry what died; pause lanes; end runs.", no_args_is_help=True)

DeadId = Annotated[int, typer.Argument(min=1, help="The number that `tinyagi queue dead` lists.")]


@app.command("status", epilog=examples("tinyagi queue status"))
def status(ctx: typer.Context, as_json: Json = False) -> None:
    """Show what waits, what runs and what is dead, by lane."""
    depth, lanes, runs = ask(ctx, _look)
    if as_json:
        print_json({"queue": depth, "agents": lanes, "processing": runs})
        return
    say(f"{depth.pending} waiting, {depth.processing} in work, {depth.completed} done, {depth.dead} dead")
    print_table(
        ("agent", "waiting#", "in work#", "dead#", "state"),
        [(f"@{lane.agent}", lane.pending, lane.processing, lane.dead, _state(lane)) for lane in lanes],
        empty="No agent has had a message yet.",
    )
    if runs:
        print_table(
            ("run#", "agent", "since#", "message", "latest"),
            [(run.id, f"@{run.agent}", duration(run.duration), run.message[:200], run.progress[-80:]) for run in runs],
            empty="",
        )


@app.command("dead", epilog=examples("tinyagi queue dead", "tinyagi queue dead --agent coder --json"))
def dead(
    ctx: typer.Context,
    agent: Annotated[str | None, typer.Option("--agent", "-a", help="Of this agent only.")] = None,
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """List messages that are not tried again by themselves, with the reason."""
    messages = ask(ctx, lambda client: client.queue.dead(agent=agent, limit=limit))
    if as_json:
        print_json(messages)
        return
    print_table(
        ("id#", "died", "agent", "attempts#", "message", "reason"),
        [
            (
                one.id,
                when(one.failed_at),
                f"@{one.data.agent}",
                one.attempts_made,
                one.data.message[:120],
                one.failed_reason,
            )
            for one in messages
        ],
        empty="No message is dead.",
    )


@app.command("retry", epilog=examples("tinyagi queue retry 17", 'tinyagi queue retry 17 --message "in other words"'))
def retry(
    ctx: typer.Context,
    message: DeadId,
    text: Annotated[str | None, typer.Option("--message", help="Another text.")] = None,
) -> None:
    """Send a dead message again, with all its attempts, perhaps with another text."""
    ask(ctx, lambda client: client.queue.retry(message, text))
    say(f"Message {message} waits again.")


@app.command("delete", epilog=examples("tinyagi queue delete 17 --yes"))
def delete(ctx: typer.Context, message: DeadId, yes: Yes = False) -> None:
    """Remove a dead message for good."""
    confirm(f"Delete message {message} for good?", yes=yes)
    ask(ctx, lambda client: client.queue.delete(message))
    say(f"Message {message} is deleted.")


@app.command("pause", epilog=examples("tinyagi queue pause coder"))
def pause(ctx: typer.Context, agent: Agent) -> None:
    """Let an agent begin nothing more; what runs is finished, what comes waits."""
    ask(ctx, lambda client: client.queue.pause(agent))
    say(f"@{agent} is paused. Let it go on: tinyagi queue resume {agent}")


@app.command("resume", epilog=examples("tinyagi queue resume coder"))
def resume(ctx: typer.Context, agent: Agent) -> None:
    """Let an agent go on after a pause or a hold."""
    ask(ctx, lambda client: client.queue.resume(agent))
    say(f"@{agent} goes on.")


@app.command("kill", epilog=examples("tinyagi queue kill 17 --yes"))
def kill(
    ctx: typer.Context,
    message: Annotated[int, typer.Argument(min=1, help="The run's number; `tinyagi queue status` lists them.")],
    yes: Yes = False,
) -> None:
    """End a run; its messages are dead then and can be retried."""
    confirm(f"End the run of message {message}?", yes=yes)
    killed = ask(ctx, lambda client: client.queue.kill(message))
    said = f"The run of @{killed.agent} is over." if killed.process_killed else "The run had just ended by itself."
    say(f"{said} See what died: tinyagi queue dead")


async def _look(client: "Client") -> "tuple[QueueStatus, list[LaneStatus], list[RunningMessage]]":
    return await client.queue.status(), await client.queue.lanes(), await client.queue.processing()


def _state(lane: "LaneStatus") -> str:
    if lane.paused:
        return "paused"
    return f"held until {when(lane.hold_until)}: {lane.hold_reason}" if lane.hold_until else ""
