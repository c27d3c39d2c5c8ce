"""The pid file: who works on a home. Held with a lock for the life of the process, so a leftover never counts."""

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

from tinyagi.daemon.errors import AlreadyRunning, DaemonError
from tinyagi.settings.home import Home
from tinyagi.system.processes import ProcessIdentity, pid_file_fields, process_in

PATIENCE: Final = timedelta(seconds=2)
"""Whoever looks holds the lock for a moment, too; a daemon that begins waits for that."""
SETTLED: Final = timedelta(milliseconds=500)
_PAUSE: Final = 0.01
_LONGEST: Final = 4096
_NO_LOCKS: Final = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})


class State(StrEnum):
    ABSENT = "absent"
    """Nobody works on the home."""
    STALE = "stale"
    """Nobody does, though the file names somebody."""
    STARTING = "starting"
    """Somebody does, and does not answer requests yet."""
    RUNNING = "running"
    UNKNOWN = "unknown"
    """Somebody holds the lock, and the file does not say who, or names another machine."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a look at the pid file shows."""

    state: State
    process: ProcessIdentity | None = None
    host: str | None = None
    port: int | None = None
    version: str | None = None

    @property
    def is_up(self) -> bool:
        return self.state in {State.STARTING, State.RUNNING}

    @property
    def pid(self) -> int:
        return 0 if self.process is None else self.process.pid

    @property
    def url(self) -> str | None:
        """Where the API answers, as a program on this machine reaches it; None when nobody does."""
        if self.state is not State.RUNNING or self.host is None or self.port is None:
            return None
        return address(self.host, self.port)

    @property
    def leftover(self) -> str:
        """In words what became of the process that the file of a stale sighting names."""
        if self.process is None:
            return "holds nothing that names a process"
        fate = "is another program by now" if self.process.pid_is_taken() else "is gone"
        return f"names process {self.pid}, which {fate}"


def address(host: str, port: int) -> str:
    """The address in a form that a program on this machine can open: "any address" is no address to call."""
    callable_host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{callable_host}]:{port}" if ":" in callable_host else f"http://{callable_host}:{port}"


def look(home: Home) -> Sighting:
    """Who works on the home. Says nothing about whether it answers."""
    try:
        descriptor = os.open(home.pid_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return Sighting(State.ABSENT)
    except OSError as error:
        raise _unusable(home, error) from error
    try:
        held = not _lock(descriptor, fcntl.LOCK_SH, home)
        content = _content(descriptor, home)
    finally:
        os.close(descriptor)
    found = _understand(content)
    if not held:
        return found if content.strip() else Sighting(State.ABSENT)
    if found.process is None or not found.process.is_alive():
        return replace(found, state=State.UNKNOWN)
    return replace(found, state=State.STARTING if found.port is None else State.RUNNING)


def look_patiently(home: Home, patience: timedelta = SETTLED) -> Sighting:
    """Look again while the lock is held and the file names nobody: a daemon that begins locks it, then writes."""
    deadline = time.monotonic() + patience.total_seconds()
    while (sighting := look(home)).state is State.UNKNOWN and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    return sighting


class PidFile:
    """The lock of the one process that works on a home."""

    def __init__(self, home: Home, descriptor: int, version: str) -> None:
        self._home = home
        self._descriptor = descriptor
        self._fields: dict[str, object] = {**pid_file_fields(), "host": None, "port": None, "version": version}

    def listening(self, host: str, port: int) -> None:
        """Tell everybody who looks where the API answers."""
        self._fields |= {"host": host, "port": port}
        self.write()

    def write(self) -> None:
        line = f"{json.dumps(self._fields)}\n".encode()
        # In one piece, then cut: whoever reads the first line meanwhile finds the old one or the new one.
        os.pwrite(self._descriptor, line, 0)
        os.ftruncate(self._descriptor, len(line))

    def remove(self) -> None:
        """Take the file away and let go of the lock."""
        with contextlib.suppress(FileNotFoundError):
            if _is_in_place(self._descriptor, self._home.pid_file):
                self._home.pid_file.unlink()
        os.close(self._descriptor)


@contextlib.contextmanager
def held(home: Home, version: str, *, patience: timedelta = PATIENCE) -> Iterator[PidFile]:
    """Be the one process that works on the home; raise AlreadyRunning when another one does."""
    deadline = time.monotonic() + patience.total_seconds()
    while (descriptor := _attempt(home)) is None:
        sighting = look(home)
        if sighting.is_up or time.monotonic() >= deadline:
            raise AlreadyRunning(refusal(home, sighting))
        time.sleep(_PAUSE)
    file = PidFile(home, descriptor, version)
    try:
        file.write()
        yield file
    finally:
        file.remove()


def refusal(home: Home, sighting: Sighting) -> str:
    """Why nobody else may begin, and what to do."""
    if sighting.is_up:
        where = "" if sighting.url is None else f" at {sighting.url}"
        return (
            f"TinyAGI works on {home.path} already (pid {sighting.pid}{where}). "
            "Stop that one first with `tinyagi stop`, or use another home with --home."
        )
    if sighting.process is not None and sighting.process.is_elsewhere:
        return (
            f"TinyAGI works on {home.path} already, as pid {sighting.pid} on {sighting.process.host}. "
            "Stop it there, or use another home with --home."
        )
    return (
        f"Another process keeps {home.pid_file} locked, and the file does not say which one: see `fuser` or `lsof`. "
        "End it, or use another home with --home."
    )


def _attempt(home: Home) -> int | None:
    """The locked file, or None when another process has it."""
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(home.pid_file, flags, 0o600)
    except OSError as error:
        raise _unusable(home, error) from error
    try:
        # The former owner may have removed the file between our opening and our locking of it.
        if _lock(descriptor, fcntl.LOCK_EX, home) and _is_in_place(descriptor, home.pid_file):
            os.fchmod(descriptor, 0o600)
            taken, descriptor = descriptor, -1
            return taken
        return None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _lock(descriptor: int, kind: int, home: Home) -> bool:
    try:
        # flock and not lockf: it belongs to this opening of the file, and no other closing of the file ends it.
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


def _content(descriptor: int, home: Home) -> bytes:
    try:
        return os.pread(descriptor, _LONGEST, 0)
    except OSError as error:
        raise _unusable(home, error) from error


def _understand(content: bytes) -> Sighting:
    """What the file's first line says, as if nobody held the lock."""
    try:
        fields = json.loads(content.partition(b"\n")[0])
    except (ValueError, RecursionError):
        return Sighting(State.STALE)
    process = process_in(fields)
    if process is None:
        return Sighting(State.STALE)
    if not isinstance(fields, dict):
        return Sighting(State.STALE, process)
    host, port, version = fields.get("host"), fields.get("port"), fields.get("version")
    return Sighting(
        State.STALE,
        process,
        host if isinstance(host, str) else None,
        port if isinstance(port, int) and 0 < port < 65_536 else None,
        version if isinstance(version, str) else None,
    )


def _unusable(home: Home, error: OSError) -> DaemonError:
    return DaemonError(
        f"The pid file {home.pid_file} cannot be used ({error.strerror}). See that it is a file of yours, or remove it."
    )
