"""`tinyagi trace`: a conversation as a waterfall, or the last conversations."""

from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.context import ask
from tinyagi.cli.options import Json, Limit
from tinyagi.cli.screen import print_json, print_table, show, when

if TYPE_CHECKING:
    from tinyagi.api.traces import Conversation


def trace(
    ctx: typer.Context,
    conversation: Annotated[
        str | None, typer.Argument(help="Its id, as `tinyagi send` tells it; without one, the last ones are listed.")
    ] = None,
    limit: Limit = 20,
    as_json: Json = False,
) -> None:
    """Show how a conversation went: who waited, who ran, what was handed on, and what it cost."""
    if conversation is None:
        _list(ask(ctx, lambda client: client.conversations.recent(limit=limit)), as_json=as_json)
        return
    found = ask(ctx, lambda client: client.conversations.trace(conversation))
    if as_json:
        print_json(found)
        return
    from tinyagi.cli.waterfall import waterfall  # noqa: PLC0415 - see cli.context

    show(waterfall(found))


def _list(conversations: "list[Conversation]", *, as_json: bool) -> None:
    if as_json:
        print_json(conversations)
        return
    print_table(
        ("conversation", "began", "from", "to", "state", "messages#", "cost#", "text"),
        [
            (
                one.id,
                when(one.started_at),
                one.sender,
                f"#{one.team}" if one.team else f"@{one.agent}",
                one.status,
                one.total,
                f"{one.cost:.4f}" if one.cost else "",
                one.message[:100],
            )
            for one in conversations
        ],
        empty='There are no conversations yet. Begin one: tinyagi send "hello"',
    )
