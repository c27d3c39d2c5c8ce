"""The tables that the benchmark prints."""

import os
import platform
import sqlite3
from collections.abc import Sequence
from dataclasses import astuple
from importlib.metadata import version
from typing import Final

import apsw
from rich import box
from rich.markup import escape
from rich.table import Table

from backlogs import BacklogCost
from growth import Growth
from rates import LIBRARIES, OURS, Library, Scores
from samples import Operation, Spread

HOW_TO_READ: Final = (
    "huey pays one fsync per operation and tinyagi one per group of operations, so their ratio measures the disk, too: "
    "the time of a small write + fsync is below each table. CPU is processor time per operation, of all threads."
)


def machine() -> str:
    """The machine and its current load."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return (
        f"Python {platform.python_version()} · SQLite {apsw.sqlite_lib_version()} (tinyagi, through apsw) and "
        f"{sqlite3.sqlite_version} (the others, through sqlite3) · {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} before · {libraries}"
    )


def libraries_table(libraries: Sequence[Library]) -> Table:
    table = _table("What they promise by default")
    for name in ("library", "durability of a commit", "what a finished message leaves"):
        table.add_column(name)
    for library in libraries:
        table.add_row(library.name, library.durability, library.keeps, style=_style(library.name))
    return table


def rates_table(scores: Scores) -> Table:
    callers = f"{scores.callers} concurrent caller" + ("s" if scores.callers > 1 else "")
    table = _table(f"{callers}: operations per second, median of {scores.rounds} rounds")
    table.add_column("library")
    for operation in ("enqueue", "claim+complete"):
        for name in (operation, "spread", "ours/theirs", "slowest", "CPU"):
            table.add_column(name, justify="right")
    for library in LIBRARIES:
        cells = (*_cells(scores, "enqueue", library), *_cells(scores, "take", library))
        table.add_row(library, *cells, style=_style(library))
    table.caption = "4 KiB write + fsync: {:.2f} ms ({:.2f} to {:.2f})".format(
        *(seconds * 1e3 for seconds in astuple(scores.fsync))
    )
    return table


def failure_lines(scores: Scores) -> list[str]:
    """One line per library that could not keep up with its callers."""
    return [
        f"[red]{library} failed[/] at {operation} with {scores.callers} callers: {count} × {escape(failure)}"
        for (operation, library), score in scores.by_library.items()
        for failure, count in score.failures.most_common(3)
    ]


def growth_table(growth: Growth) -> Table:
    table = _table("Time per operation, 64 callers, medians")
    for name in ("operation", "new store", f"{growth.rows:,} completed rows", "ratio"):
        table.add_column(name, justify="left" if name == "operation" else "right")
    for operation in ("enqueue", "claim", "complete", "depth"):
        before, after = growth.seconds(operation)
        table.add_row(operation, f"{before * 1e6:,.0f} µs", f"{after * 1e6:,.0f} µs", f"{growth.ratio(operation):.2f}")
    before, after = growth.open_seconds
    table.add_row("open (once)", f"{before * 1e3:,.0f} ms", f"{after * 1e3:,.0f} ms", "")
    return table


def backlog_table(costs: Sequence[BacklogCost]) -> Table:
    table = _table("Time of a claim, medians")
    for name in ("backlog", "without it", "with it", "ratio"):
        table.add_column(name, justify="left" if name == "backlog" else "right")
    for cost in costs:
        table.add_row(cost.name, f"{cost.without:.2f} ms", f"{cost.with_backlog:.2f} ms", f"{cost.ratio:.2f}")
    return table


def pickup_line(pickup: Spread, idle_percent: float) -> str:
    return (
        f"Pick-up from another process: [bold]{pickup.median:.1f} ms[/] ({pickup.low:.1f} to {pickup.high:.1f}) · "
        f"an idle store uses [bold]{idle_percent:.2f} %[/] of a core"
    )


def _cells(scores: Scores, operation: Operation, library: str) -> tuple[str, ...]:
    score = scores.by_library.get((operation, library))
    if score is None:
        return ("–",) * 5
    mark = "[red]![/]" if score.failures else ""
    low, high = score.rate.low, score.rate.high
    spread = f"{low / 1000:.1f}–{high / 1000:.1f}k" if high >= 1000 else f"{low:.0f}–{high:.0f}"
    ratio = "" if library == OURS else f"{scores.ratio(operation, library):.2f}"
    return (
        f"{mark}{score.rate.median:,.0f}",
        spread,
        ratio,
        f"{score.slowest * 1e3:,.0f} ms",
        f"{score.cpu * 1e6:,.0f} µs",
    )


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", caption_justify="left", box=box.SIMPLE_HEAD)


def _style(library: str) -> str:
    return "bold" if library == OURS else ""
