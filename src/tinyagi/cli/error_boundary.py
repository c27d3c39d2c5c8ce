"""The error boundary of all commands: an expected error becomes a message on stderr and an exit code."""

import codecs
import errno
import os
import sys
from io import TextIOWrapper
from typing import Any, Final

import typer
from typer.core import TyperGroup

from tinyagi.cli.terminal import WrongCall, readable, wrapped
from tinyagi.client.errors import ClientError, NotRunning
from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.ids import ID_PATTERN

FAILED: Final = 1
WRONG_CALL: Final = 2
NOT_RUNNING: Final = 3
HELD: Final = 4
"""The agent is held until a person changes something."""
INTERRUPTED: Final = 130
_REMEDIES: Final = {
    errno.EACCES: " Check the owner and the mode of this path.",
    errno.EPERM: " Check the owner and the mode of this path.",
    errno.ENOSPC: " Free some space and try again.",
    errno.EDQUOT: " Free some space and try again.",
    errno.EROFS: " Choose another folder with --home.",
}
_PLAIN: Final = str.maketrans(
    "█▉▊▋▌▍▎▏▁▂▃▄▅▆▇·…→└×✓✗≈“”",
    '######  _.-=+*%..>`x+x~""',
)
"""One ASCII character for each symbol that commands print, so that bars and columns keep their width."""
_TERMS: Final = (
    ("Use ?messages=dead", "Add --messages dead"),
    ("?messages=move:", "--messages move:"),
    ("runAt", "--at"),
    ("either cron, to", "either --cron, to"),
    ("DELETE /api/queue/messages/", "tinyagi queue cancel "),
    ("/api/queue/processing lists", "`tinyagi queue status` lists"),
    ("/api/queue/agents lists", "`tinyagi agent list` lists"),
    ("/api/teams lists", "`tinyagi team list` lists"),
    ("/api/conversations lists", "`tinyagi trace` lists"),
    ("List the agents to see their names.", "`tinyagi agent list` lists them."),
    (f"String should match pattern '^{ID_PATTERN.pattern}$'", "use lowercase letters, digits, - and _"),
)


class NotBuilt(TinyAGIError):
    """The command's feature does not exist yet; nothing was changed."""


class ErrorBoundary(TyperGroup):
    """The commands of `tinyagi`."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TinyAGIError as error:
            _print_error(_sentence(error))
            raise typer.Exit(_exit_code(error)) from error
        except typer.Abort as error:
            # Ctrl-C at a prompt.
            typer.echo("Aborted.", err=True)
            raise typer.Exit(INTERRUPTED) from error
        except ValueError as error:
            sentence = _invalid(error)
            if sentence is None:
                raise
            _print_error(sentence)
            raise typer.Exit(WRONG_CALL) from error
        except OSError as error:
            if error.errno is None or error.errno == errno.EPIPE:
                # Typer ends the command silently when the reader of a pipe is gone.
                raise
            _print_error(_system_error(error))
            _discard_output()
            raise typer.Exit(FAILED) from error


def replace_unprintable() -> None:
    """Replace characters that the output's encoding lacks by ASCII instead of raising."""
    codecs.register_error("tinyagi", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="tinyagi")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_PLAIN)
    return "".join(character if character.isascii() else "?" for character in text), error.end


def _print_error(sentence: str) -> None:
    typer.secho(wrapped(f"tinyagi: {readable(sentence)}"), file=sys.stderr, fg="red")


def _sentence(error: TinyAGIError) -> str:
    return _in_cli_words(str(error)) if isinstance(error, ClientError) else str(error)


def _invalid(error: ValueError) -> str | None:
    """The message for invalid input or arguments; None for any other error."""
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        return (
            f"The input is not UTF-8: byte 0x{byte:02x} at position {error.start}. "
            "Convert it, for example with `iconv -f latin1 -t utf-8`."
        )
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return None
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(step) for step in first["loc"])
    return f"{field}: {first['msg'].removeprefix('Value error, ')}."


def _system_error(error: OSError) -> str:
    path = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else ""
    return f"{error.strerror}{path}.{_REMEDIES.get(error.errno or 0, '')}"


def _discard_output() -> None:
    """Drop unwritten output: Python flushes stdout at exit, and the flush would raise once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit_code(error: TinyAGIError) -> int:
    if isinstance(error, NotRunning):
        return NOT_RUNNING
    return WRONG_CALL if isinstance(error, WrongCall) else FAILED


def _in_cli_words(sentence: str) -> str:
    """An error of the API in the words of the command line: options instead of fields, commands instead of routes."""
    if sentence.startswith("label: "):
        sentence = f"--{sentence}"
    for api, cli in _TERMS:
        sentence = sentence.replace(api, cli)
    return sentence
