"""The edge of the process: an error of ours is a sentence on stderr and an exit code, never a stack trace."""

from typing import Any, Final

import typer
from typer.core import TyperGroup

from tinyagi.cli.screen import readable
from tinyagi.client.errors import NotRunning
from tinyagi.domain.errors import TinyAGIError

FAILED: Final = 1
WRONG_CALL: Final = 2
NOT_RUNNING: Final = 3


class WrongCall(TinyAGIError):
    """The command cannot be carried out as it was typed; nothing was changed."""


class Edge(TyperGroup):
    """The commands of `tinyagi`."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TinyAGIError as error:
            typer.secho(f"tinyagi: {readable(str(error))}", err=True, fg="red")
            raise typer.Exit(_exit_code(error)) from error


def _exit_code(error: TinyAGIError) -> int:
    if isinstance(error, NotRunning):
        return NOT_RUNNING
    return WRONG_CALL if isinstance(error, WrongCall) else FAILED
