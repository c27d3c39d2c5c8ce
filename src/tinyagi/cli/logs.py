"""`tinyagi logs`: prints and follows the log files, also without a daemon."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Never

import typer

from tinyagi.cli.options import HomeOption

if TYPE_CHECKING:
    from tinyagi.log_reader import LogFollower

POLL_SECONDS: Final = 0.25
"""Seconds between two polls of the files."""


def logs(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(help="queue, daemon, pipeline, a channel's name, or all: every log, merged by time.")
    ] = "all",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep showing new lines.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=1_000_000, help="How many lines.")] = 100,
    home: HomeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines as they are in the files.")] = False,
) -> None:
    """Show the last lines of the logs."""
    from contextlib import closing, suppress

    from tinyagi.cli.context import Installation, installation
    from tinyagi.log_reader import LogFollower

    folder = (installation(context) if home is None else Installation(home)).home.logs

    def show(line: str) -> None:
        typer.echo(line if as_json else readable_line(line))

    with closing(LogFollower(folder, source)) as follower:
        last = _last(folder, source, lines, may_be_absent=follow)
        for line in last:
            show(line)
        if follow:
            # Ctrl-C ends the command normally.
            with suppress(KeyboardInterrupt):
                _follow(follower, last, show)
        elif not last:
            typer.echo(f"There are no log lines in {folder} yet.", err=True)


def _follow(follower: "LogFollower", last: list[str], show: Callable[[str], None]) -> Never:
    import time

    # Lines written between the two reads are in both.
    seen = set(last)
    while True:
        for line in follower.poll():
            if line not in seen:
                show(line)
        seen.clear()
        time.sleep(POLL_SECONDS)


def readable_line(line: str) -> str:
    """A log line for a person; other text is shown unchanged, without control characters."""
    from tinyagi.daemon.log_files import format_line, visible

    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return visible(line)
    if not isinstance(fields, dict):
        return visible(line)
    text = {name: value for name, value in fields.items() if isinstance(value, str)}
    time, level, logger = _local(text.get("time", "")), text.get("level", ""), text.get("logger", "")
    return format_line(time, level, logger, text.get("text", ""), text.get("agent"), text.get("trace"))


def _last(folder: Path, source: str, lines: int, *, may_be_absent: bool) -> list[str]:
    from tinyagi.domain.errors import NotFound
    from tinyagi.log_reader import tail

    if lines == 0:
        return []
    try:
        return tail(folder, source, lines)
    except NotFound:
        # `--follow` may start before the log exists.
        if may_be_absent:
            return []
        raise


def _local(time: str) -> str:
    """An instant of a log in this machine's time zone."""
    from datetime import datetime

    from tinyagi.domain.texts import one_line

    try:
        return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        return one_line(time, 30)
