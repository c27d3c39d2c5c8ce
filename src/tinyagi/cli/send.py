"""`tinyagi send`: sends a message to an agent or a team; with `--wait`, shows the answers as they come."""

import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.context import call_daemon, installation
from tinyagi.cli.error_boundary import HELD
from tinyagi.cli.options import AgentOption, Json
from tinyagi.cli.terminal import WrongCall, note, print_json, read_stdin, say
from tinyagi.client.errors import ClientError
from tinyagi.settings.environment import snapshot

if TYPE_CHECKING:
    from tinyagi.api.messages import SendMessage

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_STEM: Final = 100


def send(
    ctx: typer.Context,
    message: Annotated[str, typer.Argument(help="The text, @agent or @team first; - reads it from stdin.")],
    agent: AgentOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Show the answers as they come, until all are done.")
    ] = False,
    timeout: Annotated[float | None, typer.Option(min=0.1, help="Seconds to wait at most.")] = None,
    files: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="A file to send along; may be repeated.")
    ] = None,
    sender: Annotated[str | None, typer.Option(help="The sender; your login name by default.")] = None,
    as_json: Json = False,
) -> None:
    """Send a message. It is stored before this command ends and runs whether or not you wait."""
    request = _request(ctx, message, agent, files or [], sender)
    if wait:
        raise typer.Exit(_wait(ctx, request, timeout, as_json=as_json))
    sent = call_daemon(ctx, lambda client: client.send(request))
    if sent.warning is not None:
        note(sent.warning)
    if as_json:
        print_json(sent)
        return
    say(f"Sent as {sent.message_id}. Follow it: tinyagi trace {sent.conversation_id}")


def _request(ctx: typer.Context, text: str, agent: str | None, files: list[Path], sender: str | None) -> "SendMessage":
    from tinyagi.api.messages import SendMessage

    text = read_stdin() if text == "-" else text
    if not text.strip() and not files:
        raise WrongCall("There is nothing to send: give a text or a --file.")
    place = installation(ctx)
    if files and place.url is not None:
        raise WrongCall("--file copies into the home of a daemon on this machine; leave out --url.")
    person = sender or snapshot().get("USER") or "owner"
    # Absolute paths, because agents work in other folders.
    stored = tuple(str(copy_into_home(file, place.home.files)) for file in files)
    name = None if agent is None else agent.removeprefix("@")
    return SendMessage(message=text, agent=name, channel="cli", sender=person, files=stored)


def _wait(ctx: typer.Context, request: "SendMessage", timeout: float | None, *, as_json: bool) -> int:
    from contextlib import suppress

    from tinyagi.cli.live import LiveView, QuietView
    from tinyagi.client.conversation import ConversationResult, acknowledge_answers, converse
    from tinyagi.client.holds import PAUSED

    conversation = ConversationResult()
    audience = QuietView() if as_json else LiveView()
    try:
        with audience:
            call_daemon(ctx, lambda client: converse(client, request, conversation, audience, timeout))
    except KeyboardInterrupt:
        state = "waits in the queue and runs" if conversation.holds else "goes on"
        note(f"The message {state} without you. Follow it: tinyagi trace {conversation.id}")
        return 130
    except TimeoutError:
        note(f"Not done after {timeout:g} s; it goes on. Follow it: tinyagi trace {conversation.id}")
        return 1
    finally:
        if as_json and conversation.id:
            print_json(conversation.as_object())
            if conversation.warning is not None:
                note(conversation.warning)
    with suppress(ClientError):
        # The answers are on the screen already; a failure here only leaves them marked as not delivered.
        call_daemon(ctx, lambda client: acknowledge_answers(client, conversation, request.channel))
    for end in conversation.ends:
        note(f"@{end.agent} gave up: {end.reason} Retry it: tinyagi queue dead")
    if conversation.status == "held":
        unusable = sorted(agent for agent, hold in conversation.holds.items() if hold.reason != PAUSED)
        if unusable:
            note("Another provider or key: " + ", ".join(f"tinyagi setup --agent {agent}" for agent in unusable))
        return HELD
    return 1 if conversation.ends else 0


def copy_into_home(file: Path, folder: Path) -> Path:
    """Copy a file into the folder under a unique name and return its path."""
    source = file.expanduser()
    if not source.is_file():
        raise WrongCall(f"--file: there is no file {file}.")
    stem, suffix = _UNSAFE.sub("_", source.stem).strip("._") or "file", _UNSAFE.sub("", source.suffix)[:20]
    target = folder / f"{stem[:_MAX_STEM]}_{secrets.token_hex(4)}{suffix}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as copy, source.open("rb") as content:
            shutil.copyfileobj(content, copy)
    except OSError as error:
        raise WrongCall(f"--file: {file} cannot be copied to {target}: {error.strerror}.") from error
    return target.absolute()
