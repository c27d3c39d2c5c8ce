"""Opens SQLite connections, loads the named statements of `sql/*.sql`, and translates SQLite's errors."""

import os
import platform
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

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

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)

Connect = Callable[[Path, timedelta], apsw.Connection]

# For `legacy`, which reads the original's databases and does not import apsw.
Connection = apsw.Connection
SQLiteError = apsw.Error

# After one of these SQLite may have rolled back, and other operations of the group would fail as well.
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


def load_statements() -> Mapping[str, str]:
    """Every named statement; raise ValueError when two have the same name."""
    found: dict[str, str] = {}
    for file in sorted(files("tinyagi.store").joinpath("sql").iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".sql"):
            continue
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise ValueError(f"Two statements are named {name}.")
            found[name] = _bare(body)
    return MappingProxyType(found)


def _bare(body: str) -> str:
    """The statement without comments and line breaks: its text is the key of the statement cache."""
    lines = (line for line in body.splitlines() if not line.startswith("--"))
    return " ".join(" ".join(lines).split()).rstrip(";")


def connect(path: Path, busy_timeout: timedelta) -> apsw.Connection:
    """Open the file in WAL mode with full durability. The caller begins and ends transactions."""
    # Without SQLite's mutex: every connection is used by one thread at a time.
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
    connection = apsw.Connection(str(path), flags=flags, statementcachesize=256)
    # Plans must not depend on bound values, or SQLite would prepare the claim again every time.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_timeout(busy_timeout // timedelta(milliseconds=1))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    if platform.system() == "Darwin":
        # On macOS fsync only passes the data to the drive, which may write it later and in another order.
        connection.pragma("fullfsync", True)
        connection.pragma("checkpoint_fullfsync", True)
    # Only the board has foreign keys, so this costs the queue's tables nothing.
    connection.pragma("foreign_keys", True)
    connection.pragma("temp_store", "memory")
    # `Checkpointer` runs checkpoints: an automatic one would delay a group in the middle of a burst.
    connection.wal_autocheckpoint(0)
    connection.pragma("journal_size_limit", 64 * 1024 * 1024)
    return connection


def open_read_only(path: Path, *, immutable: bool | None = None) -> apsw.Connection:
    """Open the file for reading. `immutable` reads only the main file and creates no other, not even a `-shm` file.

    The default is immutable when there is no `-wal` or `-journal` file: then no process has the database open.
    """
    if immutable is None:
        immutable = not any(path.with_name(f"{path.name}{ending}").exists() for ending in ("-wal", "-journal"))
    address = f"{path.absolute().as_uri()}?immutable={int(immutable)}"
    return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def open_existing(path: Path) -> apsw.Connection:
    """Open the file for reading and writing, in the journal mode it has."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(5_000)
    return connection


def create_private(path: Path) -> None:
    """Create folder and file readable by the owner only, before SQLite creates them readable by all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise _read_only(path, error) from error


def check_integrity(connection: apsw.Connection, path: Path, backups: Path) -> None:
    """Raise StoreCorrupt, naming the newest backup, unless the file passes SQLite's quick_check."""
    verdict = connection.execute("PRAGMA quick_check(1)").get
    if verdict != "ok":
        raise _corrupt(path, backups, str(verdict))


def store_error(error: apsw.Error, path: Path, backups: Path) -> StoreError:
    """Translate SQLite's error into one that names the remedy."""
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
                "A retry would not help: please report this message as a bug in TinyAGI."
            )
        case _:
            return StoreFailed(
                f"Writing to {path} failed ({error}); nothing was written. Check the disk and try again."
            )


def commit_failed(error: apsw.Error, path: Path) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"The commit to {path} failed ({error}), so its outcome is unknown. Repeat with the same messageId: nothing "
        "is stored twice."
    )


def _read_only(path: Path, error: Exception) -> StoreReadOnly:
    return StoreReadOnly(
        f"{path} cannot be opened for writing ({error}). Check that its folder is on a writable file system and "
        "belongs to you."
    )


def _corrupt(path: Path, backups: Path, detail: str) -> StoreCorrupt:
    return StoreCorrupt(f"The database {path} is damaged ({detail}). {_restore_hint(backups)}")


def _restore_hint(backups: Path) -> str:
    archive = max(backups.glob("tinyagi-*.zip"), default=None)
    if archive is not None:
        return f"Stop TinyAGI and restore the newest backup: tinyagi backup restore {archive.name}"
    copy = max(backups.glob("*.db"), key=lambda file: file.stat().st_mtime, default=None)
    if copy is not None:
        return f"Move it away and copy the newest backup, {copy}, in its place."
    return f"There is no backup in {backups}; move the file away to start with an empty queue."
