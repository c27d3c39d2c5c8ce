"""Looks at a database file without changing it, also while a daemon works with it."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

import apsw

from tinyagi.store.health import LaneHealth, StoreHealth
from tinyagi.store.sqlite.connection import translate
from tinyagi.store.statements import load_migrations, load_statements


def examine(path: Path) -> StoreHealth:
    """Check the file and count what waits in it; raise StoreError when it cannot be opened. Reads the whole file."""
    files = (path, path.with_name(f"{path.name}-wal"))
    size = sum(file.stat().st_size for file in files if file.exists())
    newest = load_migrations("sqlite")[-1][0]
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        with contextlib.closing(connection):
            connection.set_busy_timeout(5_000)
            verdict = str(connection.execute("PRAGMA quick_check(1)").get)
            sql = load_statements("sqlite")
            version = _version(connection, sql)
            is_known = 0 < version <= newest and verdict == "ok"
            last_event = _last_event(connection, sql) if is_known else 0
            lanes = _lanes(connection, sql) if version == newest and verdict == "ok" else ()
    except apsw.Error as error:
        raise translate(error, path, path.parent / "backups") from error
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
