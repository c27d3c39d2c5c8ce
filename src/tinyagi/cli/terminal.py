"""Terminal input and output of commands: prompts, tables for people, JSON for programs.

Control characters are removed from all printed text.
"""

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import typer

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.ids import is_valid_id
from tinyagi.domain.instants import clock_time
from tinyagi.domain.texts import clean, one_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_WIDE: Final = 200
"""Columns when the output is not a terminal, so that little is cut."""
_MARKS: Final = "?#!…"
_NEVER_WRAPPED: Final = frozenset("#!")
_MIN_WIDTH: Final = 8
"""Minimum width of a text column."""
_KEPT: Final = frozenset("\t\u200c\u200d")


def can_ask() -> bool:
    """Whether stdin and stderr are a terminal."""
    # A closed stream is None.
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def read_stdin() -> str:
    """All of stdin as UTF-8, whatever the locale."""
    if sys.stdin is None:
        raise WrongCall("There is no input to read: stdin is closed.")
    return sys.stdin.buffer.read().decode()


def option_or_prompt(
    value: str | None,
    option: str,
    question: str,
    *,
    default: str | None = None,
    choices: Sequence[str] = (),
    hidden: bool = False,
) -> str:
    """The option's value, else the answer to a prompt; without a terminal the default, or raise WrongCall."""
    if value is None and not can_ask():
        if default is None:
            raise WrongCall(f"{option} is missing: {question}? There is no terminal for a prompt.")
        value = default
    if value is None:
        value = _ask(question, default, choices, hidden=hidden)
    if choices and value not in choices:
        raise WrongCall(f"{option}: {one_line(value)!r} is not one of {', '.join(choices)}.")
    return value


def new_id(value: str | None, argument: str, question: str) -> str:
    """The id of a new thing; raise WrongCall when it is not valid."""
    name = option_or_prompt(value, argument, question).lstrip("@#")
    if not is_valid_id(name):
        raise WrongCall(f"{one_line(name)!r} is not an id; use up to 64 lowercase letters, digits, - and _.")
    return name


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation and exit without it; `--yes` skips the question."""
    if yes:
        return
    if not can_ask():
        raise WrongCall(f"{question} There is no terminal for a prompt: add --yes.")
    if not typer.confirm(question, err=True):
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(1)


def _ask(question: str, default: str | None, choices: Sequence[str], *, hidden: bool) -> str:
    hint = f" ({', '.join(choices)})" if choices else ""
    while True:
        answer: str = typer.prompt(
            f"{question}{hint}", default=default, show_default=not hidden, hide_input=hidden, err=True
        )
        if not choices or answer in choices:
            return answer.strip()
        typer.echo(f"Please type one of {', '.join(choices)}.", err=True)


def console(*, err: bool = False) -> "Console":
    from rich.console import Console

    found = Console(stderr=err, highlight=False)
    return found if found.is_terminal else Console(stderr=err, highlight=False, width=_WIDE)


def say(text: str) -> None:
    """Print a result on stdout."""
    # Without `file`, typer prints UTF-8 even when the encoding of stdout is ASCII.
    typer.echo(readable(text), file=sys.stdout)


def note(text: str) -> None:
    """Print a remark on stderr."""
    typer.echo(wrapped(readable(text)), file=sys.stderr)


def wrapped(text: str) -> str:
    """Wrap text for stderr at spaces; a terminal would break it within words."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in text.splitlines()
    )


def show(renderable: "RenderableType") -> None:
    console().print(renderable)


def print_json(value: object) -> None:
    """Print models, lists and objects as JSON, with the API's field names."""
    from pydantic_core import to_jsonable_python

    # json.dumps escapes non-ASCII, so the output is safe for every terminal and encoding.
    typer.echo(json.dumps(to_jsonable_python(value, by_alias=True), indent=2))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Print rows as a table, or `empty` when there are none.

    Marks in a column's name control its layout on a narrow terminal. A trailing `#` means numbers and `!` names or ids,
    which never break; `…` cuts the cell to one line; other cells wrap. A column with a leading `?` is dropped when the
    table is too wide; columns with `??` are dropped first.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    # Text, not str: rich would interpret markup in a str.
    cells = [[Text(cell_text(cell)) for cell in row] for row in rows]
    if not cells:
        say(empty)
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    widths = [_min_width(name, [row[number] for row in cells]) for number, name in enumerate(columns)]
    shown = _fitting(columns, widths, console().width)
    for number in shown:
        kind = columns[number][-1:]
        table.add_column(
            columns[number].strip(_MARKS),
            justify="right" if kind == "#" else "left",
            overflow="fold",
            no_wrap=kind in _NEVER_WRAPPED,
            min_width=widths[number],
        )
        if kind == "…":
            for row in cells:
                row[number].no_wrap, row[number].overflow = True, "ellipsis"
    for row in cells:
        table.add_row(*(row[number] for number in shown))
    show(table)


def _min_width(column: str, cells: "Iterable[Text]") -> int:
    name = column.strip(_MARKS)
    widest = max(len(name), *(cell.cell_len for cell in cells))
    return widest if column[-1:] in _NEVER_WRAPPED else min(widest, max(len(name), _MIN_WIDTH))


def _fitting(columns: Sequence[str], widths: Sequence[int], room: int) -> list[int]:
    """The indexes of the columns that fit."""
    shown = list(range(len(columns)))
    optional = [number for number in shown if columns[number].startswith("?")]
    optional.sort(key=lambda number: columns[number].startswith("??"))
    while optional and 1 + sum(widths[number] + 2 for number in shown) > room:
        shown.remove(optional.pop())
    return shown


class Entry(NamedTuple):
    """A row with texts too long for a table, printed on several lines."""

    id: object
    facts: Sequence[object]
    """Short texts for the first line."""
    reason: str
    """Wrapped."""
    text: str
    """Cut to one line."""


def print_entries(entries: Iterable[Entry], *, empty: str) -> None:
    """Print the entries below each other, or `empty` when there are none."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for entry in entries:
        facts = Text("  ".join(cell_text(fact) for fact in entry.facts if cell_text(fact)), style="bold")
        lines = [facts]
        if entry.reason:
            lines.append(Text(cell_text(entry.reason), style="yellow"))
        if entry.text:
            lines.append(Text(cell_text(entry.text), no_wrap=True, overflow="ellipsis"))
        grid.add_row(cell_text(entry.id), Group(*lines))
    if not grid.rows:
        say(empty)
        return
    show(grid)


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print the fields that have a value, one per line."""
    from rich.table import Table
    from rich.text import Text

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
    """The text with its line breaks, without control and invisible characters."""
    lines = clean(text).splitlines()
    return "\n".join(
        "".join(character for character in line if character.isprintable() or character in _KEPT) for line in lines
    )


def when(milliseconds: int | None) -> str:
    """An instant in this machine's time zone."""
    if milliseconds is None:
        return ""
    return at(datetime.fromtimestamp(milliseconds / 1000, UTC))


def moment(milliseconds: int | None) -> str:
    """A short instant for a table: the time if it is today, else the date."""
    return "" if milliseconds is None else clock_time(milliseconds, time.time_ns() // 1_000_000)


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


class WrongCall(TinyAGIError):
    """The command's arguments are wrong; nothing was changed."""
