"""From an agent's Markdown to Discord's. Discord shows Markdown itself, except tables: they become code blocks."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

from tinyagi.channels.discord.manifest import TEXT_LIMIT

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_RULE_CELL: Final = re.compile(r":?-+:?")
_CELL_END: Final = re.compile(r"(?<!\\)\|")

Rows = list[list[str]]


def to_discord(markdown: str) -> str:
    """The text for Discord, never longer than its limit if the Markdown is not.

    Aligned columns need the most room; a text without that room keeps its tables as they are written.
    """
    for show in (_aligned, _as_written):
        text = "\n".join(_lines(markdown, show))
        if len(text) <= TEXT_LIMIT:
            return text
    return markdown


def _lines(markdown: str, show: Callable[[list[str]], list[str]]) -> Iterator[str]:
    lines = markdown.split("\n")
    fence = ""
    at = 0
    while at < len(lines):
        mark = _FENCE.match(lines[at])
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not lines[at][mark.end() :].strip():
            fence = ""
        end = at if fence or mark else _end_of_table(lines, at)
        if end > at:
            yield from ("```", *show(lines[at:end]), "```")
            at = end
        else:
            yield lines[at]
            at += 1


def _end_of_table(lines: list[str], at: int) -> int:
    """The line after the table that begins here; `at` when none begins."""
    if at + 1 >= len(lines) or "|" not in lines[at] or not _is_rule(lines[at + 1], len(_cells(lines[at]))):
        return at
    end = at + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    # A code block cannot hold its own fence.
    return at if any("```" in line for line in lines[at:end]) else end


def _is_rule(line: str, columns: int) -> bool:
    cells = _cells(line)
    return "|" in line and len(cells) == columns and all(_RULE_CELL.fullmatch(cell) for cell in cells)


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(inner)]


def _as_written(table: list[str]) -> list[str]:
    return table


def _aligned(table: list[str]) -> list[str]:
    rows = [_cells(line) for at, line in enumerate(table) if at != 1]
    columns = max(map(len, rows))
    widths = [max((_width(row[column]) for row in rows if column < len(row)), default=0) for column in range(columns)]
    shown = [
        " | ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]
    return [shown[0], "-+-".join("-" * width for width in widths), *shown[1:]]


def _width(text: str) -> int:
    """Columns that the text takes in a fixed-width font."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)
