"""Copies a database through SQLite's backup interface, and puts a copy in place of a database.

A plain copy of the file would lack the write-ahead log.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from tinyagi.domain.errors import StoreFailed
from tinyagi.store.connection import load_statements, open_existing, store_error
from tinyagi.system.files import put_in_place
from tinyagi.system.processes import ProcessIdentity

OnPagesCopied = Callable[[int, int], None]
"""Called with the number of copied pages and the total."""

PAGES: Final = 2_000
_BUSY_TIMEOUT_MS: Final = 5_000
_NO_PROCESS: Final = ProcessIdentity(host="", boot="", pid=0, started=None)


def copy_connected(connection: apsw.Connection, target: Path, copied: OnPagesCopied = lambda *_: None) -> None:
    """Copy a snapshot of the database into a new file, readable by its owner only. Writers are not blocked."""
    target.touch(mode=0o600)
    with contextlib.closing(apsw.Connection(str(target))) as copy:
        # One read transaction for the whole copy: otherwise every commit of another process would restart it.
        connection.execute("BEGIN")
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 - starts the transaction
            with copy.backup("main", connection, "main") as backup:
                while not backup.done:
                    backup.step(PAGES)
                    copied(backup.page_count - backup.remaining, backup.page_count)
        finally:
            connection.execute("ROLLBACK")
        # A single file: in WAL mode a reader would create two more beside it.
        copy.pragma("journal_mode", "delete")


def copy_database(source: Path, target: Path, copied: OnPagesCopied = lambda *_: None) -> None:
    """Copy a database that other processes may be using, and release the claims in the copy.

    No process works on the copy. With live claims, a home restored beside the original would wait for runs of the
    original's engine.
    """
    try:
        with contextlib.closing(apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
            copy_connected(connection, target, copied)
        with contextlib.closing(apsw.Connection(str(target))) as copy:
            sql = load_statements()
            if copy.execute(sql["has_ledger"]).get:
                copy.execute(sql["abandon_claims"], {"owner": str(_NO_PROCESS)})
    except apsw.Error as error:
        path = target if isinstance(error, apsw.FullError) else source
        raise store_error(error, path, source.parent / "backups") from error


def replace_database(aside: Path, path: Path) -> None:
    """Replace a database that is not in use with a copy, and remove the old one's log files."""
    if path.exists():
        try:
            with contextlib.closing(open_existing(path)) as connection:
                # SQLite would replay a leftover write-ahead log into the new file.
                connection.pragma("journal_mode", "delete")
        except apsw.Error as error:
            raise StoreFailed(
                f"{path} cannot be read ({error}). Repair it with `sqlite3 … .recover` or move it away."
            ) from error
    put_in_place(aside, path)
