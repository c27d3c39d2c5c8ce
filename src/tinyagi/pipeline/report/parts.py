"""Pieces of a report's page: every text that goes through here comes out inert."""

import html
from collections.abc import Iterable, Sequence
from typing import Final

from tinyagi.domain.texts import one_line

_SHORT: Final = 28


def escaped(value: object, longest: int = 160) -> str:
    return html.escape(one_line(str(value), longest))


def card(title: str, body: str, *, hint: str = "", name: str = "", is_wide: bool = False) -> str:
    place = f' id="{html.escape(name)}"' if name else ""
    small = f" <small>{escaped(hint)}</small>" if hint else ""
    return f'<section class="card{" wide" if is_wide else ""}"{place}><h2>{escaped(title)}{small}</h2>{body}</section>'


def chart(name: str, said: str) -> str:
    """The place of a chart, with what it shows for those who cannot see it."""
    return f'<div class="chart" id="chart-{html.escape(name)}" role="img" aria-label="{escaped(said)}"></div>'


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A column whose name ends in `#` holds numbers. Only long texts are broken into lines."""
    marks = [' class="number"' if column.endswith("#") else "" for column in columns]
    head = "".join(
        f"<th{mark}>{escaped(column.removesuffix('#'))}</th>" for column, mark in zip(columns, marks, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(_cell(cell, mark) for cell, mark in zip(row, marks, strict=True))}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: object, mark: str) -> str:
    text = one_line(str(value), 160)
    kind = mark or (' class="text"' if len(text) > _SHORT else "")
    return f"<td{kind}>{html.escape(text)}</td>"


def headline(name: str, value: str, beside: str, history: Sequence[float] = (), colour: str = "") -> str:
    curve = sparkline(history, colour) if any(history) else ""
    return (
        f'<section class="card headline"><h2>{escaped(name)}</h2><strong>{escaped(value)}</strong>'
        f"<small>{escaped(beside)}</small>{curve}</section>"
    )


def sparkline(values: Sequence[float], colour: str) -> str:
    top = max(values) or 1
    step = 100 / max(1, len(values) - 1)
    points = " ".join(f"{at * step:.1f},{38 - 32 * value / top:.1f}" for at, value in enumerate(values))
    return (
        '<svg class="sparkline" viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true">'
        f'<polygon points="0,40 {points} 100,40" fill="{colour}" opacity=".14"/>'
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5" '
        'vector-effect="non-scaling-stroke"/></svg>'
    )
