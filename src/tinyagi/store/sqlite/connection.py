"""Opens SQLite connections the way the store needs them, and puts SQLite's errors into words."""

import os
import platform
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import apsw

from tinyagi.domain.errors import (
    OutcomeUnknown,
    StatementRefused,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreReadOnly,
)

Connect = Callable[[Path, timedelta], apsw.Connection]

# After one of these SQLite may have ended the transaction by itself, and it will not work for a neighbour either.
FATAL = (
    apsw.FullError,
    apsw.IOError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.ReadOnlyError,
    apsw.CantOpenError,
    apsw.PermissionsError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.NoMemError,
)


def connect(path: Path, busy_timeout: timedelta) -> apsw.Connection:
    """Open the file in WAL mode with full durability; transactions are ours to begin and end."""
    # No mutex of SQLite's own: every connection here belongs to one thread at a time.
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
    connection = apsw.Connection(str(path), flags=flags, statementcachesize=256)
    # Plans must not depend on bound values: SQLite would otherwise prepare the claim again for every claim.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_timeout(busy_timeout // timedelta(milliseconds=1))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    if platform.system() == "Darwin":
        # There fsync only hands the data to the drive, which may write it later and in another order.
        connection.pragma("fullfsync", True)
        connection.pragma("checkpoint_fullfsync", True)
    # Only the board has references; the queue's tables pay nothing for it.
    connection.pragma("foreign_keys", True)
    connection.pragma("temp_store", "memory")
    # Checkpoints have their own place (checkpoint.py): an automatic one would stop a group in the middle of a burst.
    connection.wal_autocheckpoint(0)
    connection.pragma("journal_size_limit", 64 * 1024 * 1024)
    return connection


def create_private(path: Path) -> None:
    """Create folder and file, readable for the owner only, before SQLite creates them for everybody."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise _read_only(path, error) from error


def check(connection: apsw.Connection, path: Path, backups: Path) -> None:
    """Raise StoreCorrupt, naming the newest backup, unless the file passes SQLite's own check."""
    verdict = connection.execute("PRAGMA quick_check(1)").get
    if verdict != "ok":
        raise _corrupt(path, backups, str(verdict))


def translate(error: apsw.Error, path: Path, backups: Path) -> StoreError:
    """Put SQLite's error into words that name the remedy."""
    match error:
        case apsw.FullError():
            return StoreFull(f"There is no room left for {path}; nothing was written. Free some space and try again.")
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(
                f"Another process keeps {path} locked; nothing was written. "
                "Try again, or end the process that holds it."
            )
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return _read_only(path, error)
        case apsw.CorruptError() | apsw.NotADBError():
            return _corrupt(path, backups, str(error))
        case apsw.ConstraintError() | apsw.TooBigError() | apsw.MismatchError() | apsw.RangeError() | apsw.SQLError():
            return StatementRefused(
                f"The database {path} refused a statement ({error}); nothing was written. "
                "Another try would not help: please report this sentence as a fault of TinyAGI."
            )
        case _:
            return StoreFailed(
                f"Writing to {path} failed ({error}); nothing was written. Check the disk and try again."
            )


def commit_failed(error: apsw.Error, path: Path) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"The commit to {path} failed ({error}), so its outcome is unknown. Repeat with the same messageId: what was "
        "stored is not stored twice."
    )


def _read_only(path: Path, error: Exception) -> StoreReadOnly:
    return StoreReadOnly(
        f"{path} cannot be opened for writing ({error}). Check that its folder is on a writable file system and "
        "belongs to you."
    )


def _corrupt(path: Path, backups: Path, detail: str) -> StoreCorrupt:
    return StoreCorrupt(f"The database {path} is damaged ({detail}). {_way_back(backups)}")


def _way_back(backups: Path) -> str:
    archive = max(backups.glob("tinyagi-*.zip"), default=None)
    if archive is not None:
        return f"Stop TinyAGI and restore the newest backup: tinyagi backup restore {archive.name}"
    copy = max(backups.glob("*.db"), key=lambda file: file.stat().st_mtime, default=None)
    if copy is not None:
        return f"Move it away and copy the newest backup, {copy}, to its place."
    return f"There is no backup in {backups}; move the file away to start with an empty queue."
