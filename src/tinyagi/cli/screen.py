"""What commands print: tables for people, JSON for programs. Texts from outside lose their control characters."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import typer

from tinyagi.domain.texts import clean, one_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_WIDE: Final = 200
"""Columns for a reader that is no terminal: nothing is cut for it without need."""
_KEPT: Final = frozenset("\t\u200c\u200d")


def console(*, err: bool = False) -> "Console":
    from rich.console import Console  # noqa: PLC0415 - see cli.context

    found = Console(stderr=err, highlight=False)
    return found if found.is_terminal else Console(stderr=err, highlight=False, width=_WIDE)


def say(text: str) -> None:
    """Print what was done."""
    typer.echo(readable(text))


def note(text: str) -> None:
    """Print what a person should know, beside the result."""
    typer.echo(readable(text), err=True)


def show(what: "RenderableType") -> None:
    console().print(what)


def print_json(value: object) -> None:
    """Print models, lists and objects as JSON, with the names that the API gives them."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415

    # Only ASCII goes out, so no terminal and no encoding can be confused by it.
    typer.echo(json.dumps(to_jsonable_python(value, by_alias=True), indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print rows, or what to do when there are none. A column whose name ends in `#` holds numbers."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        is_number = column.endswith("#")
        table.add_column(column.removesuffix("#"), justify="right" if is_number else "left", overflow="fold")
    # Cells are Text: what looks like markup in them stays what it is.
    cells = [[Text(cell_text(cell)) for cell in row] for row in rows]
    if not cells:
        say(empty)
        return
    for row in cells:
        table.add_row(*row)
    show(table)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print the fields of one thing, those that have a value."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in fields:
        if cell_text(value):
            grid.add_row(name, Text(cell_text(value)))
    show(grid)


def cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(
        json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value), 500
    )


def readable(text: str) -> str:
    """The text with its lines, without what would move a terminal's cursor or hide something in it."""
    lines = clean(text).splitlines()
    return "\n".join("".join(mark for mark in line if mark.isprintable() or mark in _KEPT) for line in lines)


def when(milliseconds: int | None) -> str:
    """An instant in this machine's time zone."""
    if milliseconds is None:
        return ""
    return at(datetime.fromtimestamp(milliseconds / 1000, UTC))


def at(instant: datetime | None) -> str:
    return "" if instant is None else f"{instant.astimezone():%Y-%m-%d %H:%M:%S}"


def duration(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1_000:.1f} s"
    minutes, seconds = divmod(milliseconds // 1_000, 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min {seconds} s"
