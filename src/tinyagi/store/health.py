"""Examines a database file, of any version, without changing it."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import apsw

from tinyagi.store.connection import load_statements, open_read_only, store_error
from tinyagi.store.migrations import load_migrations


@dataclass(frozen=True, slots=True)
class LaneHealth:
    """Counts and state of a lane."""

    agent: str
    pending: int
    dead: int
    paused: bool
    hold_until: int
    """Milliseconds; 0 when it is not held."""
    hold_reason: str | None


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """State of a database file; `verdict` is "ok" when it passes SQLite's check."""

    verdict: str
    version: int
    """The last migration of the file; 0 when it is not a TinyAGI database."""
    newest: int
    """The last migration that this program knows."""
    size: int
    """Bytes, including the write-ahead log."""
    last_event: int = 0
    """The newest id that the event log assigned; 0 when the version is unknown."""
    lanes: tuple[LaneHealth, ...] = ()
    """Empty for another version: its tables may differ."""


def read_health(path: Path) -> StoreHealth:
    """Check the file and count its messages; raise StoreError when it cannot be opened. Reads the whole file."""
    files = (path, path.with_name(f"{path.name}-wal"))
    size = sum(file.stat().st_size for file in files if file.exists())
    newest = load_migrations()[-1][0]
    try:
        with contextlib.closing(open_read_only(path)) as connection:
            connection.set_busy_timeout(5_000)
            verdict = str(connection.execute("PRAGMA quick_check(1)").get)
            sql = load_statements()
            version = _version(connection, sql)
            is_known = 0 < version <= newest and verdict == "ok"
            last_event = _last_event(connection, sql) if is_known else 0
            lanes = _lanes(connection, sql) if version == newest and verdict == "ok" else ()
    except apsw.Error as error:
        raise store_error(error, path, path.parent / "backups") from error
    return StoreHealth(verdict, version, newest, size, last_event, lanes)


def _version(connection: apsw.Connection, sql: Mapping[str, str]) -> int:
    found = connection.execute(sql["has_ledger"]).get
    return int(connection.execute(sql["newest_migration"]).get or 0) if found else 0


def _last_event(connection: apsw.Connection, sql: Mapping[str, str]) -> int:
    _, head = connection.execute(sql["event_bounds"]).fetchall()[0]
    return int(head or 0)


def _lanes(connection: apsw.Connection, sql: Mapping[str, str]) -> tuple[LaneHealth, ...]:
    counts = {lane: (pending, dead) for lane, pending, _, _, dead in connection.execute(sql["depth_by_lane"])}
    states = {row[0]: row for row in connection.execute(sql["lane_rows"])}
    return tuple(
        LaneHealth(
            agent=agent,
            pending=counts.get(agent, (0, 0))[0],
            dead=counts.get(agent, (0, 0))[1],
            paused=bool(states[agent][1]) if agent in states else False,
            hold_until=states[agent][2] if agent in states else 0,
            hold_reason=states[agent][3] if agent in states else None,
        )
        for agent in sorted({*counts, *states})
    )
