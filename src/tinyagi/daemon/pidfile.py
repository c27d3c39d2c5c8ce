"""The pid file: which process serves a home, and where.

The process holds a lock on the file for its whole life, so a file without a lock is stale.
"""

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final

from tinyagi.client.address import url_of
from tinyagi.domain.errors import TinyAGIError
from tinyagi.settings.home import Home
from tinyagi.system.processes import ProcessIdentity, pid_file_fields, process_in

LOCK_TIMEOUT: Final = timedelta(seconds=2)
"""A starting daemon waits this long: `find_daemon` in another process holds a shared lock for a moment."""
SETTLE_TIME: Final = timedelta(milliseconds=500)
_POLL_SECONDS: Final = 0.01
_MAX_BYTES: Final = 4096
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})


class DaemonError(TinyAGIError):
    """The daemon cannot be started, stopped or found; the message says what to do."""


class AlreadyRunning(DaemonError):
    """Another process serves this home."""


class DaemonState(StrEnum):
    ABSENT = "absent"
    """No process serves the home."""
    STALE = "stale"
    """The named process is gone."""
    STARTING = "starting"
    """A process holds the lock and does not answer requests yet."""
    RUNNING = "running"
    UNKNOWN = "unknown"
    """A process holds the lock; the file does not name it, or names another machine."""


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """What the pid file says about the daemon."""

    state: DaemonState
    process: ProcessIdentity | None = None
    host: str | None = None
    port: int | None = None
    version: str | None = None

    @property
    def is_up(self) -> bool:
        return self.state in {DaemonState.STARTING, DaemonState.RUNNING}

    @property
    def pid(self) -> int:
        return 0 if self.process is None else self.process.pid

    @property
    def url(self) -> str | None:
        """The API's address for programs on this machine; None unless the daemon is running."""
        if self.state is not DaemonState.RUNNING or self.host is None or self.port is None:
            return None
        return url_of(self.host, self.port)

    @property
    def leftover(self) -> str:
        """Why the pid file is stale, as the end of a sentence."""
        if self.process is None:
            return "names no process"
        fate = "is another program now" if self.process.pid_is_taken() else "is gone"
        return f"names process {self.pid}, which {fate}"


def find_daemon(home: Home) -> DaemonInfo:
    """Read the pid file and its lock; does not check that the daemon answers."""
    try:
        descriptor = os.open(home.pid_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return DaemonInfo(DaemonState.ABSENT)
    except OSError as error:
        raise _unusable(home, error) from error
    try:
        is_locked = not _lock(descriptor, fcntl.LOCK_SH, home)
        content = _read(descriptor, home)
    finally:
        os.close(descriptor)
    found = _parse(content)
    if not is_locked:
        return found if content.strip() else DaemonInfo(DaemonState.ABSENT)
    if found.process is None or not found.process.is_alive():
        return replace(found, state=DaemonState.UNKNOWN)
    return replace(found, state=DaemonState.STARTING if found.port is None else DaemonState.RUNNING)


def find_settled_daemon(home: Home, timeout: timedelta = SETTLE_TIME) -> DaemonInfo:
    """Like `find_daemon`, but wait for a starting daemon, which locks the file before it writes its pid."""
    deadline = time.monotonic() + timeout.total_seconds()
    while (daemon := find_daemon(home)).state is DaemonState.UNKNOWN and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return daemon


class PidFile:
    """The locked pid file of the process that serves a home."""

    def __init__(self, home: Home, descriptor: int, version: str) -> None:
        self._home = home
        self._descriptor = descriptor
        self._fields: dict[str, object] = {**pid_file_fields(), "host": None, "port": None, "version": version}

    def listening(self, host: str, port: int) -> None:
        """Record where the API answers."""
        self._fields |= {"host": host, "port": port}
        self.write()

    def write(self) -> None:
        line = f"{json.dumps(self._fields)}\n".encode()
        # One write, then truncate: a concurrent reader of the first line gets the old one or the new one.
        os.pwrite(self._descriptor, line, 0)
        os.ftruncate(self._descriptor, len(line))

    def remove(self) -> None:
        """Delete the file and release the lock."""
        with contextlib.suppress(FileNotFoundError):
            if _is_in_place(self._descriptor, self._home.pid_file):
                self._home.pid_file.unlink()
        os.close(self._descriptor)


@contextlib.contextmanager
def hold_pid_file(home: Home, version: str, *, timeout: timedelta = LOCK_TIMEOUT) -> Iterator[PidFile]:
    """Hold the home's lock while the block runs; raise AlreadyRunning when another process has it."""
    deadline = time.monotonic() + timeout.total_seconds()
    while (descriptor := _try_lock(home)) is None:
        daemon = find_daemon(home)
        if daemon.is_up or time.monotonic() >= deadline:
            raise AlreadyRunning(already_running_message(home, daemon))
        time.sleep(_POLL_SECONDS)
    file = PidFile(home, descriptor, version)
    try:
        file.write()
        yield file
    finally:
        file.remove()


def already_running_message(home: Home, daemon: DaemonInfo) -> str:
    """Which process has the lock, and what to do about it."""
    if daemon.is_up:
        where = "" if daemon.url is None else f" at {daemon.url}"
        return (
            f"TinyAGI is already running on {home.path} (pid {daemon.pid}{where}). "
            "Stop it first with `tinyagi stop`, or use another home with --home."
        )
    if daemon.process is not None and daemon.process.is_elsewhere:
        return (
            f"TinyAGI is already running on {home.path}, as pid {daemon.pid} on {daemon.process.host}. "
            "Stop it there, or use another home with --home."
        )
    return (
        f"Another process locks {home.pid_file}, and the file does not say which one: find it with `fuser` or `lsof`. "
        "End it, or use another home with --home."
    )


def _try_lock(home: Home) -> int | None:
    """The descriptor of the locked file, or None when another process has it."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(home.pid_file, flags, 0o600)
    except OSError as error:
        raise _unusable(home, error) from error
    try:
        # The former owner may have deleted the file between the open and the lock.
        if _lock(descriptor, fcntl.LOCK_EX, home) and _is_in_place(descriptor, home.pid_file):
            os.fchmod(descriptor, 0o600)
            locked, descriptor = descriptor, -1
            return locked
        return None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _lock(descriptor: int, kind: int, home: Home) -> bool:
    try:
        # flock, not lockf: closing another descriptor of the same file would release a lockf lock.
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise DaemonError(
                f"{home.pid_file} cannot be locked ({error.strerror}): its file system has no locks. "
                "Set TINYAGI_HOME to a folder on a local disk."
            ) from error
        raise _unusable(home, error) from error
    return True


def _is_in_place(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _read(descriptor: int, home: Home) -> bytes:
    try:
        return os.pread(descriptor, _MAX_BYTES, 0)
    except OSError as error:
        raise _unusable(home, error) from error


def _parse(content: bytes) -> DaemonInfo:
    """Parse the file's first line; the state is STALE until the caller has checked the lock."""
    try:
        fields = json.loads(content.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return DaemonInfo(DaemonState.STALE)
    process = process_in(fields)
    if process is None:
        return DaemonInfo(DaemonState.STALE)
    if not isinstance(fields, dict):
        return DaemonInfo(DaemonState.STALE, process)
    host, port, version = fields.get("host"), fields.get("port"), fields.get("version")
    return DaemonInfo(
        DaemonState.STALE,
        process,
        host if isinstance(host, str) else None,
        port if isinstance(port, int) and 0 < port < 65_536 else None,
        version if isinstance(version, str) else None,
    )


def _unusable(home: Home, error: OSError) -> DaemonError:
    return DaemonError(
        f"The pid file {home.pid_file} cannot be used ({error.strerror}). Make sure that you own it, or remove it."
    )
