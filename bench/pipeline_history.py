"""Writes a synthetic history: an office at work for 90 days, through the store's own operations, a day at a time."""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

import apsw
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pipeline_office import HOUR_MS, Office, newest
from pipeline_world import World
from tinyagi.store.connection import connect
from tinyagi.store.store import Store

EXAMPLE: Final = """\
example:
  python bench/pipeline_history.py --events 100000 --database history.db
  python bench/pipeline_history.py --append 10000 --database history.db
"""

_OLD_EVENTS: Final = "SELECT count(*) FROM events WHERE id > ?1 AND conversation_started_at < ?2"
_END: Final = "SELECT created_at FROM events ORDER BY id DESC LIMIT 1"

OnProgress = Callable[[int], None]
"""Called at times with the number of written events, in another thread."""


@dataclass(frozen=True, slots=True)
class Written:
    """The added events: those after `after` up to `through`."""

    after: int
    through: int
    messages: int
    old_events: int
    """Events of conversations that were there before."""
    start_at: int
    end_at: int
    seconds: float

    @property
    def events(self) -> int:
        return self.through - self.after


async def write_history(
    database: Path,
    *,
    events: int,
    seed: int,
    end_at: int,
    days: int = 90,
    progress: OnProgress = lambda written: None,
) -> Written:
    """Create a database with about this many events of the days before `end_at`, reproducible by seed."""
    start_at = end_at - days * 24 * HOUR_MS
    async with await Store.open(database, clock=lambda: start_at) as store:
        if (await store.events.bounds()).head:
            raise RuntimeError(f"{database} holds events already: name a new file, or append to this one.")
    return await asyncio.to_thread(_write, database, events, seed, start_at, end_at, 0.0, progress)


async def append_history(
    database: Path,
    *,
    events: int,
    seed: int,
    old_share: float = 0.01,
    hours: int = 24,
    progress: OnProgress = lambda written: None,
) -> Written:
    """Continue at the end of the history; `old_share` of the messages of people belong to its conversations."""
    start_at = await asyncio.to_thread(_end_of, database)
    end_at = start_at + hours * HOUR_MS
    return await asyncio.to_thread(_write, database, events, seed, start_at, end_at, old_share, progress)


def count_types(database: Path) -> Mapping[str, int]:
    """How many events there are of each type, the most frequent first."""
    with _opened(database) as connection:
        return dict(connection.execute("SELECT type, count(*) FROM events GROUP BY type ORDER BY 2 DESC, 1"))


def _write(
    database: Path,
    events: int,
    seed: int,
    start_at: int,
    end_at: int,
    old_share: float,
    progress: OnProgress,
) -> Written:
    started = time.perf_counter()
    with _opened(database) as connection:
        office = Office(connection, World(seed), start_at, old_share)
        after, before = office.head, newest(connection, "messages")
        office.work(events, end_at, progress)
        old = connection.execute(_OLD_EVENTS, (after, start_at)).get if after else 0
        messages = newest(connection, "messages") - before
    # Otherwise the kernel writes these pages during a later measurement.
    with database.open("rb+") as file:
        os.fsync(file)
    return Written(after, office.head, messages, old, start_at, end_at, time.perf_counter() - started)


@contextmanager
def _opened(database: Path) -> Iterator[apsw.Connection]:
    connection = connect(database, timedelta(seconds=5))
    try:
        # After a crash of the machine the file is written again, so nothing must be durable before the end.
        connection.pragma("synchronous", "off")
        connection.pragma("cache_size", -262_144)
        connection.wal_autocheckpoint(20_000)
        yield connection
    finally:
        connection.close()


def _end_of(database: Path) -> int:
    with _opened(database) as connection:
        at = connection.execute(_END).get
    if at is None:
        raise RuntimeError(f"{database} holds no events: write a history first.")
    return int(at) + 1


def main() -> None:
    options = _options()
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:

        def bar(title: str, events: int) -> OnProgress:
            task = bars.add_task(title, total=events)
            return lambda written: bars.update(task, completed=written)

        parts = asyncio.run(_write_requested(options, bar))
    types = count_types(options.database)
    console.print(_types_table(types))
    print(json.dumps({"written": [_figures(part) for part in parts], "types": types}))


async def _write_requested(options: argparse.Namespace, bar: Callable[[str, int], OnProgress]) -> Sequence[Written]:
    parts: list[Written] = []
    end_at = options.end_at or time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS
    if events := options.events:
        progress_bar = bar("history", events)
        history = write_history(
            options.database, events=events, seed=options.seed, end_at=end_at, days=options.days, progress=progress_bar
        )
        parts.append(await history)
    if events := options.append:
        progress_bar = bar("today", events)
        today = append_history(
            options.database, events=events, seed=options.seed + 1, old_share=options.old_share, progress=progress_bar
        )
        parts.append(await today)
    return parts


def _types_table(types: Mapping[str, int]) -> Table:
    table = Table("event", "count", "share")
    for name, number in types.items():
        table.add_row(name, f"{number:,}", f"{number / sum(types.values()):.2%}")
    return table


def _figures(part: Written) -> dict[str, float]:
    return {**asdict(part), "events": part.events, "events_per_second": round(part.events / part.seconds)}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", type=Path, required=True, help="a new file, or one to append to")
    parser.add_argument("--events", type=int, default=0, help="events of a new history")
    parser.add_argument("--append", type=int, default=0, help="events of the day after the history")
    parser.add_argument("--old-share", type=float, default=0.01, help="share of that day in old conversations")
    parser.add_argument("--days", type=int, default=90, help="length of the history")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--end-at", type=int, help="milliseconds since 1970; the last full hour by default")
    return parser.parse_args()


if __name__ == "__main__":
    main()
