"""`tinyagi trace` and `tinyagi recall`: shows conversations, and searches what agents wrote."""

from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.context import call_daemon
from tinyagi.cli.options import Json, LaneOption, LimitOption, check_agent, examples
from tinyagi.cli.terminal import (
    Entry,
    WrongCall,
    console,
    moment,
    note,
    print_entries,
    print_json,
    print_table,
    say,
    show,
)

if TYPE_CHECKING:
    from tinyagi.api.conversations import Conversation, Recalled, RecallHit, Trace
    from tinyagi.client.client import AsyncClient

LAST = "last"

RECALL_EXAMPLES = examples("tinyagi recall invoice 4711", "tinyagi recall login page --agent coder --json")


def trace(
    ctx: typer.Context,
    conversation: Annotated[
        str | None, typer.Argument(help="Its id, or `last`; without it, recent conversations are listed.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", "-f", help="Print every answer in full below the chart.")] = False,
    limit: LimitOption = 20,
    as_json: Json = False,
) -> None:
    """Show a conversation: each message with its wait, its runs, its hand-offs and its cost."""
    if conversation is None:
        _list(call_daemon(ctx, lambda client: client.conversations.recent(limit=limit)), as_json=as_json)
        return
    found = call_daemon(ctx, lambda client: _find(client, conversation))
    if as_json:
        print_json(found)
        return
    from tinyagi.cli.waterfall import answers, waterfall

    show(waterfall(found, console().width))
    texts = list(answers(found))
    if not full and texts:
        note(f"Read the answers in full: tinyagi trace {conversation} --full")
    for heading, text in texts if full else ():
        show(heading)
        # Not wrapped, so that the text can be copied.
        say(text)
        say("")


async def _find(client: "AsyncClient", conversation: str) -> "Trace":
    if conversation == LAST:
        newest = await client.conversations.recent(limit=1)
        if not newest:
            raise WrongCall('There are no conversations yet. Start one: tinyagi send "hello"')
        conversation = newest[0].id
    return await client.conversations.trace(conversation)


def _list(conversations: "list[Conversation]", *, as_json: bool) -> None:
    if as_json:
        print_json(conversations)
        return
    print_table(
        ("conversation!", "began!", "?from…", "to!", "state!", "??messages#", "??cost#", "?text…"),
        [
            (
                one.id,
                moment(one.started_at),
                one.sender,
                f"#{one.team}" if one.team else f"@{one.agent}",
                one.status,
                one.total,
                f"{one.cost:.4f}" if one.cost else "",
                one.message[:100],
            )
            for one in conversations
        ],
        empty='There are no conversations yet. Start one: tinyagi send "hello"',
    )


def recall(
    ctx: typer.Context,
    words: Annotated[list[str], typer.Argument(help="What to look for.")],
    agent: LaneOption = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="Show at most this many per agent.")
    ] = 10,
    as_json: Json = False,
) -> None:
    """Search the archived messages and answers of agents, best matches first. The pipeline archives them."""
    text = " ".join(words)
    if not text.strip():
        raise WrongCall('The search text is missing: tinyagi recall "invoice 4711"')

    async def search(client: "AsyncClient") -> "dict[str, Recalled]":
        agents = [agent.removeprefix("@")] if agent else list(await client.agents.all())
        found = {name: await client.agents.recall(name, text, limit=limit) for name in agents}
        if agent and not any(recalled.hits for recalled in found.values()):
            await check_agent(client, *agents)
        return found

    found = call_daemon(ctx, search)
    if as_json:
        print_json(found)
        return
    print_entries(
        [
            Entry("", (f"@{name}", _who(hit), moment(hit.at), hit.conversation_id), "", hit.text)
            for name, recalled in found.items()
            for hit in recalled.hits
        ],
        empty="Nothing was found.",
    )
    through = min((recalled.through_at for recalled in found.values()), default=None)
    note(f"Searched what was archived until {moment(through)}. Archive the rest: tinyagi pipeline run")


def _who(hit: "RecallHit") -> str:
    return "answered" if hit.role == "assistant" else "was asked"
