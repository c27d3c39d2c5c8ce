"""`tinyagi logs`: the log files for people, also without a daemon."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Never

import typer

from tinyagi.cli.run import HomeOption

if TYPE_CHECKING:
    # Types only: `tinyagi --help` is instant because nothing of this is imported before a command needs it.
    from tinyagi.daemon.following import Followed

PAUSE: Final = 0.25
"""Seconds between two looks at files that grow."""


def logs(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="queue, daemon, a channel, or all of them by time.")] = "all",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, max=1_000_000, help="How many lines.")] = 100,
    home: HomeOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The lines as they stand in the files.")] = False,
) -> None:
    """Show the last lines of the logs."""
    from contextlib import closing, suppress  # noqa: PLC0415 - see cli.context

    from tinyagi.cli.context import Place, place_of  # noqa: PLC0415
    from tinyagi.daemon.following import Followed  # noqa: PLC0415

    folder = (place_of(context) if home is None else Place(home)).home.logs

    def show(line: str) -> None:
        typer.echo(line if as_json else readable_line(line))

    with closing(Followed(folder, source)) as growing:
        last = _last(folder, source, lines, may_be_absent=follow)
        for line in last:
            show(line)
        if follow:
            # Ctrl-C is how one stops reading.
            with suppress(KeyboardInterrupt):
                _follow(growing, last, show)
        elif not last:
            typer.echo(f"There is nothing in {folder} yet.", err=True)


def _follow(growing: "Followed", last: list[str], show: Callable[[str], None]) -> Never:
    import time  # noqa: PLC0415

    # What was written between the two looks is in both.
    seen = set(last)
    while True:
        for line in growing.poll():
            if line not in seen:
                show(line)
        seen.clear()
        time.sleep(PAUSE)


def readable_line(line: str) -> str:
    """A line of a log file for a person; what is no line of ours is shown as it is, without control characters."""
    from tinyagi.daemon.log_lines import for_people, visible  # noqa: PLC0415

    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return visible(line)
    if not isinstance(fields, dict):
        return visible(line)
    text = {name: value for name, value in fields.items() if isinstance(value, str)}
    time, level, logger = _local(text.get("time", "")), text.get("level", ""), text.get("logger", "")
    return for_people(time, level, logger, text.get("text", ""), text.get("agent"), text.get("trace"))


def _last(folder: Path, source: str, lines: int, *, may_be_absent: bool) -> list[str]:
    from tinyagi.domain.errors import NotFound  # noqa: PLC0415
    from tinyagi.server.log_tail import tail  # noqa: PLC0415

    if lines == 0:
        return []
    try:
        return tail(folder, source, lines)
    except NotFound:
        # Whoever follows a log may begin before it does.
        if may_be_absent:
            return []
        raise


def _local(time: str) -> str:
    """An instant of a log in this machine's time zone."""
    from datetime import datetime  # noqa: PLC0415

    from tinyagi.domain.texts import one_line  # noqa: PLC0415

    try:
        return f"{datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        return one_line(time, 30)
