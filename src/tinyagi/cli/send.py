"""`tinyagi send`: a message for an agent or a team, and on request the answer as it comes."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagi.cli.context import ask, place_of
from tinyagi.cli.edge import WrongCall
from tinyagi.cli.options import AgentOption, Json
from tinyagi.cli.screen import note, print_json, say
from tinyagi.settings.environment import snapshot

if TYPE_CHECKING:
    from tinyagi.api.messages import SendMessage


def send(
    ctx: typer.Context,
    message: Annotated[str, typer.Argument(help="The text; - reads it from stdin. @agent or @team first says who.")],
    agent: AgentOption = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Show the answer as it comes, until all is done.")] = False,
    timeout: Annotated[float | None, typer.Option(min=0.1, help="Seconds to wait at most.")] = None,
    files: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="A file to send along; may be repeated.")
    ] = None,
    sender: Annotated[str | None, typer.Option(help="Who says it; your login name by default.")] = None,
    as_json: Json = False,
) -> None:
    """Send a message. It is stored before this command ends, and runs whether or not you wait for it."""
    letter = _letter(ctx, message, agent, files or [], sender)
    if wait:
        raise typer.Exit(_wait(ctx, letter, timeout, as_json=as_json))
    sent = ask(ctx, lambda client: client.send(letter))
    if as_json:
        print_json(sent)
        return
    say(f"Sent as {sent.message_id}. See what becomes of it: tinyagi trace {sent.conversation_id}")


def _letter(ctx: typer.Context, text: str, agent: str | None, files: list[Path], sender: str | None) -> "SendMessage":
    from tinyagi.api.messages import SendMessage  # noqa: PLC0415 - see cli.context
    from tinyagi.cli.attaching import put_in_place  # noqa: PLC0415

    text = sys.stdin.read() if text == "-" else text
    if not text.strip() and not files:
        raise WrongCall("There is nothing to send: give a text or a --file.")
    place = place_of(ctx)
    if files and place.url is not None:
        raise WrongCall("--file copies into the home of a daemon on this machine; leave out --url.")
    person = sender or snapshot().get("USER") or "owner"
    # As absolute paths, so that agents find them from wherever they work.
    stored = tuple(str(put_in_place(file, place.home.files)) for file in files)
    name = None if agent is None else agent.removeprefix("@")
    return SendMessage(message=text, agent=name, channel="cli", sender=person, files=stored)


def _wait(ctx: typer.Context, letter: "SendMessage", timeout: float | None, *, as_json: bool) -> int:
    from tinyagi.cli.conversation import Conversation, converse  # noqa: PLC0415
    from tinyagi.cli.live import Silent, Stage  # noqa: PLC0415

    conversation = Conversation()
    audience = Silent() if as_json else Stage()
    try:
        with audience:
            ask(ctx, lambda client: converse(client, letter, conversation, audience, timeout))
    except KeyboardInterrupt:
        note(f"The message goes on without you. See it: tinyagi trace {conversation.id}")
        return 130
    except TimeoutError:
        note(f"Not done after {timeout:g} s; it goes on. See it: tinyagi trace {conversation.id}")
        return 1
    finally:
        if as_json and conversation.id:
            print_json(conversation.as_object())
    for end in conversation.ends:
        note(f"@{end.agent} gave up: {end.reason} Retry it: tinyagi queue dead")
    return 1 if conversation.ends else 0
