"""`tinyagi queue`: shows lanes, runs and dead messages; retries and deletes messages, pauses lanes, ends runs."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.context import call_daemon
from tinyagi.cli.options import (
    AgentArgument,
    Json,
    LaneOption,
    LimitOption,
    RecipientOption,
    Yes,
    check_agent,
    examples,
)
from tinyagi.cli.terminal import (
    Entry,
    WrongCall,
    confirm,
    duration,
    moment,
    note,
    print_entries,
    print_json,
    print_table,
    say,
)
from tinyagi.domain.texts import counted

if TYPE_CHECKING:
    from tinyagi.api.queue import DeadMessage, LaneStatus, QueueStatus, RunningMessage, WaitingMessage
    from tinyagi.client.client import AsyncClient

app = typer.Typer(help="See the queue; cancel, move or retry messages; pause agents; end runs.", no_args_is_help=True)

DeadId = Annotated[int, typer.Argument(min=1, help="The message's number; `tinyagi queue dead` lists them.")]

LIST_EXAMPLES = examples("tinyagi queue list", "tinyagi queue list --agent coder --json")
CANCEL_EXAMPLES = examples("tinyagi queue cancel 17 18", "tinyagi queue cancel --all --agent coder --yes")
MOVE_EXAMPLES = examples("tinyagi queue move 17 --to writer")

MessageIds = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Numbers that `tinyagi queue list` shows, or message ids.")
]


@app.command("status", epilog=examples("tinyagi queue status"))
def status(ctx: typer.Context, as_json: Json = False) -> None:
    """Show waiting, running and dead messages by agent."""
    depth, lanes, runs = call_daemon(ctx, _fetch)
    if as_json:
        print_json({"queue": depth, "agents": lanes, "processing": runs})
        return
    say(f"{depth.waiting} waiting, {depth.processing} running, {depth.completed} done, {depth.dead} dead")
    if depth.retrying:
        say(f"{retries(depth)} See them: tinyagi queue list")
    print_table(
        ("agent!", "waiting#", "running#", "dead#", "state"),
        [(f"@{lane.agent}", lane.waiting, lane.processing, lane.dead, lane_state(lane)) for lane in lanes],
        empty="No agent has had a message yet.",
    )
    if runs:
        print_table(
            ("run#", "agent!", "since#", "message…", "latest…"),
            [(run.id, f"@{run.agent}", duration(run.duration), run.message[:200], run.progress[-80:]) for run in runs],
            empty="",
        )


def list_waiting(ctx: typer.Context, agent: LaneOption = None, limit: LimitOption = 100, as_json: Json = False) -> None:
    """List waiting messages, oldest first, and why each one waits."""
    agent = agent and agent.removeprefix("@")

    async def fetch(client: "AsyncClient") -> "list[WaitingMessage]":
        found = await client.queue.waiting(agent=agent, limit=limit)
        if agent and not found:
            await check_agent(client, agent)
        return found

    messages = call_daemon(ctx, fetch)
    if as_json:
        print_json(messages)
        return
    now = time.time_ns() // 1_000_000
    print_entries(
        [Entry(one.id, _facts(one, now), _why(one), one.message) for one in messages],
        empty="No messages are waiting." if agent is None else f"No messages are waiting for @{agent}.",
    )
    if len(messages) == limit:
        note(f"These are the oldest {limit}. See more with --limit.")


app.command("list", epilog=LIST_EXAMPLES)(list_waiting)


def cancel(
    ctx: typer.Context,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID...]", help="Numbers that `tinyagi queue list` shows, or message ids."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All messages waiting for --agent.")] = False,
    agent: LaneOption = None,
    yes: Yes = False,
) -> None:
    """Cancel waiting messages. They become dead; `tinyagi queue retry` brings them back."""
    if every != (agent is not None) or every == bool(ids):
        raise WrongCall("Name the messages to cancel, or give --all together with --agent AGENT.")
    if agent is not None:
        name = agent.removeprefix("@")
        call_daemon(ctx, lambda client: check_agent(client, name))
        confirm(f"Cancel all messages waiting for @{name}?", yes=yes)
        cancelled = call_daemon(ctx, lambda client: client.queue.cancel_all(name))
        say(f"{counted(cancelled, 'message')} for @{name} cancelled.")
        return
    confirm(f"Cancel {_named(ids or [])}?", yes=yes)

    async def cancel_each(client: "AsyncClient") -> None:
        for one in ids or []:
            gone = await client.queue.cancel(one)
            say(f"Message {gone.id} to @{gone.agent} is cancelled. Bring it back: tinyagi queue retry {gone.id}")

    call_daemon(ctx, cancel_each)


app.command("cancel", epilog=CANCEL_EXAMPLES)(cancel)


def move(ctx: typer.Context, ids: MessageIds, to: RecipientOption) -> None:
    """Move waiting messages to another agent."""

    async def move_each(client: "AsyncClient") -> None:
        for one in ids:
            moved = await client.queue.move(one, to.removeprefix("@"))
            say(f"Message {moved.id} now waits for @{moved.agent}.")

    call_daemon(ctx, move_each)


app.command("move", epilog=MOVE_EXAMPLES)(move)


@app.command("dead", epilog=examples("tinyagi queue dead", "tinyagi queue dead --agent coder --json"))
def dead(
    ctx: typer.Context,
    agent: LaneOption = None,
    limit: LimitOption = 100,
    as_json: Json = False,
) -> None:
    """List messages that won't be retried automatically, with the reason."""
    agent = agent and agent.removeprefix("@")

    async def fetch(client: "AsyncClient") -> "list[DeadMessage]":
        found = await client.queue.dead(agent=agent, limit=limit)
        if agent and not found:
            await check_agent(client, agent)
        return found

    messages = call_daemon(ctx, fetch)
    if as_json:
        print_json(messages)
        return
    print_entries(
        [
            Entry(
                one.id,
                (
                    f"@{one.data.agent}",
                    f"from {one.data.sender}",
                    f"died {moment(one.failed_at)}",
                    counted(one.attempts_made, "run"),
                    one.data.message_id,
                ),
                one.failed_reason,
                one.data.message,
            )
            for one in messages
        ],
        empty="There are no dead messages.",
    )


@app.command("retry", epilog=examples("tinyagi queue retry 17", 'tinyagi queue retry 17 --message "in other words"'))
def retry(
    ctx: typer.Context,
    message: DeadId,
    text: Annotated[str | None, typer.Option("--message", help="A new text for the message.")] = None,
) -> None:
    """Queue a dead message again, with all its attempts and, if you like, a new text."""
    call_daemon(ctx, lambda client: client.queue.retry(message, text))
    say(f"Message {message} is queued again.")


@app.command("delete", epilog=examples("tinyagi queue delete 17 --yes"))
def delete(ctx: typer.Context, message: DeadId, yes: Yes = False) -> None:
    """Delete a dead message for good."""
    confirm(f"Delete message {message} for good?", yes=yes)
    call_daemon(ctx, lambda client: client.queue.delete(message))
    say(f"Message {message} is deleted.")


@app.command("pause", epilog=examples("tinyagi queue pause coder"))
def pause(ctx: typer.Context, agent: AgentArgument) -> None:
    """Pause an agent: the current run finishes, new messages wait."""
    call_daemon(ctx, lambda client: client.queue.pause(agent))
    say(f"@{agent} is paused. Resume it: tinyagi queue resume {agent}")


@app.command("resume", epilog=examples("tinyagi queue resume coder"))
def resume(ctx: typer.Context, agent: AgentArgument) -> None:
    """Resume an agent after a pause or a hold."""
    call_daemon(ctx, lambda client: client.queue.resume(agent))
    say(f"@{agent} is resumed.")


@app.command("kill", epilog=examples("tinyagi queue kill 17 --yes"))
def kill(
    ctx: typer.Context,
    message: Annotated[int, typer.Argument(min=1, help="The run's number; `tinyagi queue status` lists them.")],
    yes: Yes = False,
) -> None:
    """End a run. Its messages become dead and can be retried."""
    confirm(f"End the run of message {message}?", yes=yes)
    killed = call_daemon(ctx, lambda client: client.queue.kill(message))
    outcome = (
        f"The run of @{killed.agent} was ended." if killed.process_killed else "The run had just ended on its own."
    )
    say(f"{outcome} See its messages: tinyagi queue dead")


async def _fetch(client: "AsyncClient") -> "tuple[QueueStatus, list[LaneStatus], list[RunningMessage]]":
    listed = await client.queue.processing()
    runs = [message for message in listed if message.status == "processing"]
    return await client.queue.status(), await client.queue.lanes(), runs


def retries(depth: "QueueStatus") -> str:
    """How many failed messages wait for a retry, and when the next one runs."""
    count = "1 message waits" if depth.retrying == 1 else f"{depth.retrying} messages wait"
    return f"{count} for another attempt, the next at {moment(depth.next_retry_at)}."


def lane_state(lane: "LaneStatus") -> str:
    """Why the lane is paused or held, and how to resume it; empty when it works."""
    from tinyagi.client.holds import Hold

    hold = Hold.of_lane(lane)
    return "" if hold is None else hold.state


def _named(ids: list[str]) -> str:
    return f"message {ids[0]}" if len(ids) == 1 else f"{len(ids)} messages"


def _facts(message: "WaitingMessage", now: int) -> tuple[str, ...]:
    sender = f"@{message.from_agent}" if message.from_agent else message.sender
    return (
        f"@{message.agent}",
        f"from {sender}",
        f"{duration(max(0, now - message.created_at))} ago",
        message.message_id,
        f"thread {message.thread}",
        f"priority {message.priority}" if message.priority else "",
    )


def _why(message: "WaitingMessage") -> str:
    from tinyagi.client.holds import PAUSED, Hold

    if message.reason == "paused":
        return f"@{message.agent} is {Hold(message.agent, PAUSED).state}"
    if message.reason == "held":
        hold = Hold.by_queue(message.agent, message.detail or "", message.until or 0, message.hold_cause)
        return f"@{message.agent} is {hold.state}"
    agent, until = f"@{message.agent}", moment(message.until)
    detail = f": {message.detail}" if message.detail else ""
    reasons = {
        "next": "next",
        "busy": f"{agent} is running message {message.behind}",
        "thread": f"behind message {message.behind} of its thread",
        "passive": f"joins the next run of {agent}",
        "retry": f"attempt {message.attempt} of {message.attempts} at {until}{detail}",
        "delayed": f"not before {until}",
        "team": f"the daily budget of #{message.team} is used up",
    }
    return reasons[message.reason]
