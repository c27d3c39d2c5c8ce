"""`tinyagi chatroom`: reads and writes the chat room of a team."""

import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.context import call_daemon
from tinyagi.cli.options import Json, LimitOption, TeamArgument
from tinyagi.cli.terminal import print_json, readable, say, when
from tinyagi.settings.environment import snapshot

if TYPE_CHECKING:
    from tinyagi.api.teams import RoomLine
    from tinyagi.client.client import AsyncClient

MAX_NEW_LINES: Final = 1_000
"""Lines per request while following."""


def chatroom(
    ctx: typer.Context,
    team: TeamArgument,
    message: Annotated[str | None, typer.Argument(help="The message to post; without it, the room is shown.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep showing new messages.")] = False,
    limit: LimitOption = 50,
    sender: Annotated[str | None, typer.Option(help="The sender; your login name by default.")] = None,
    as_json: Json = False,
) -> None:
    """Show a team's chat room, or post a message in it."""
    if message is not None:
        person = sender or snapshot().get("USER") or "owner"
        posted = call_daemon(ctx, lambda client: _post(client, team, message, person))
        if as_json:
            print_json({"ok": True, "id": posted})
        elif not follow:
            say(f"Posted in #{team}. Follow it: tinyagi chatroom {team} -f")
    if follow:
        call_daemon(ctx, lambda client: _follow(client, team, limit, as_json=as_json))
    elif message is None:
        _show(team, call_daemon(ctx, lambda client: client.teams.room(team, limit=limit))[::-1], as_json=as_json)


async def _post(client: "AsyncClient", team: str, message: str, sender: str) -> int:
    from tinyagi.api.teams import PostLine

    return (await client.teams.post(team, PostLine.model_construct(message=message, sender=sender))).id


async def _follow(client: "AsyncClient", team: str, limit: int, *, as_json: bool) -> None:
    from contextlib import aclosing

    last, batch = 0, limit
    async with aclosing(client.events(types=("chat_posted",))) as events:
        async for event in events:
            # Other events are the opening of the stream, or a reset after missed lines: both need a read.
            if event.type == "chat_posted" and event.text("teamId") != team:
                continue
            # Read the lines from the room: the stream shortens long ones.
            for line in reversed(await client.teams.room(team, since=last, limit=batch)):
                typer.echo(json.dumps(line.model_dump()) if as_json else _text(line))
                last = line.id
            batch = MAX_NEW_LINES


def _show(team: str, lines: "list[RoomLine]", *, as_json: bool) -> None:
    if as_json:
        print_json(lines)
    elif not lines:
        say(f'#{team} has no messages yet. Write one: tinyagi chatroom {team} "hello"')
    for line in () if as_json else lines:
        typer.echo(_text(line))


def _text(line: "RoomLine") -> str:
    return f"{when(line.created_at)}  {typer.style(readable(line.from_agent), bold=True)}  {readable(line.message)}"
