"""What the daemon and its channels have written down for people."""

from typing import Annotated

from pydantic import Field

from tinyagi.api.base import Model


class LogLines(Model):
    """The last lines of the log files, oldest first."""

    lines: Annotated[tuple[str, ...], Field(description="JSON objects, one a line, as they stand in the files.")]


class AuditLine(Model):
    """An administrative action."""

    id: int
    at: int
    who: str
    action: str
    target: str
    detail: str
