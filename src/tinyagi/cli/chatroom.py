"""`tinyagi chatroom`: what a team says in its room, and something to say there."""

import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.context import ask
from tinyagi.cli.options import Json, Limit, Team
from tinyagi.cli.screen import print_json, readable, say, when
from tinyagi.settings.environment import snapshot

if TYPE_CHECKING:
    from tinyagi.api.rooms import RoomLine
    from tinyagi.client.client import Client

MOST: Final = 1_000
"""Lines between two looks."""


def chatroom(
    ctx: typer.Context,
    team: Team,
    message: Annotated[str | None, typer.Argument(help="Something to say; without it, the room is shown.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is said from now on.")] = False,
    limit: Limit = 50,
    sender: Annotated[str | None, typer.Option(help="Who says it; your login name by default.")] = None,
    as_json: Json = False,
) -> None:
    """Show a team's chat room, or say something in it."""
    if message is not None:
        person = sender or snapshot().get("USER") or "owner"
        posted = ask(ctx, lambda client: _post(client, team, message, person))
        if as_json:
            print_json({"ok": True, "id": posted})
        elif not follow:
            say(f"Said in #{team}. See what comes of it: tinyagi chatroom {team} -f")
    if follow:
        ask(ctx, lambda client: _follow(client, team, limit, as_json=as_json))
    elif message is None:
        _show(team, ask(ctx, lambda client: client.teams.room(team, limit=limit))[::-1], as_json=as_json)


async def _post(client: "Client", team: str, message: str, sender: str) -> int:
    from tinyagi.api.rooms import PostLine  # noqa: PLC0415 - see cli.context

    return (await client.teams.post(team, PostLine.model_construct(message=message, sender=sender))).id


async def _follow(client: "Client", team: str, limit: int, *, as_json: bool) -> None:
    from contextlib import aclosing  # noqa: PLC0415

    last, most = 0, limit
    async with aclosing(client.events(types=("chat_posted",))) as events:
        async for event in events:
            # The first one says that the stream is open; a reset, that lines were missed.
            if event.type == "chat_posted" and event.text("teamId") != team:
                continue
            # Lines come from the room itself: the stream cuts long ones.
            for line in reversed(await client.teams.room(team, since=last, limit=most)):
                typer.echo(json.dumps(line.model_dump()) if as_json else _text(line))
                last = line.id
            most = MOST


def _show(team: str, lines: "list[RoomLine]", *, as_json: bool) -> None:
    if as_json:
        print_json(lines)
    elif not lines:
        say(f'Nobody has said anything in #{team} yet. Begin: tinyagi chatroom {team} "hello"')
    for line in () if as_json else lines:
        typer.echo(_text(line))


def _text(line: "RoomLine") -> str:
    return f"{when(line.created_at)}  {typer.style(readable(line.from_agent), bold=True)}  {readable(line.message)}"
