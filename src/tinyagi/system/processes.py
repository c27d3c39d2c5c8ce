"""A process: its identity, which stays unique when the pid is reused, and its limit of open files."""

import json
import os
import resource
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

_NONCE: Final = secrets.token_hex(8)
"""New at each start of the program, also after `execv`, which keeps pid and start time but reloads this module."""
_NONCE_MARK: Final = "~"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_SLACK: Final = 1.0
"""Seconds by which two readings of the same start time may differ."""
_FILE_SLACK: Final = 2.0
"""Seconds by which a process's start time may lie after the timestamp of a file it wrote at its start."""
ENOUGH_FILES: Final = 65_536
_MACOS_FILES: Final = 10_240
"""macOS refuses more, although it reports no hard limit."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One start of a program; as text `host/boot/pid/started/~nonce`."""

    host: str
    boot: str
    """Linux's boot id; "unknown" elsewhere, where the start time also distinguishes boots."""
    pid: int
    started: float | None
    """Seconds since boot on Linux, since the epoch elsewhere; None when the parsed text has none."""
    nonce: str = ""
    """Empty when an older version wrote the text."""

    def __str__(self) -> str:
        started = "" if self.started is None else repr(self.started)
        return f"{self.host}/{self.boot}/{self.pid}/{started}/{_NONCE_MARK}{self.nonce}"

    @classmethod
    def parse(cls, text: str) -> "ProcessIdentity":
        """Parse the text form of this or an older version; raise ValueError for anything else."""
        rest, _, last = text.rpartition("/")
        has_nonce = last.startswith(_NONCE_MARK)
        # Only the host name may contain a slash.
        host, boot, pid, started = (rest if has_nonce else text).rsplit("/", 3)
        if has_nonce:
            return cls(host, boot, int(pid), float(started) if started else None, last.removeprefix(_NONCE_MARK))
        # Older versions wrote no nonce, and wrote the start in clock ticks, on Linux only.
        return cls(host, boot, int(pid), int(started) / os.sysconf("SC_CLK_TCK") if started else None)

    @property
    def is_elsewhere(self) -> bool:
        """True for a process of another machine or container, whose state is unknown here."""
        return self.host != socket.gethostname()

    def is_alive(self) -> bool | None:
        """Whether this start of the program still runs; None when that is unknown."""
        if self.is_elsewhere:
            return None
        if self.boot != _boot():
            return False
        # A process cannot read another's nonce, so pid and start time decide for other processes. For our own pid the
        # nonce decides: an identity written by an earlier image of this process, before `execv`, is dead.
        if self.pid == os.getpid() and self.started is not None:
            return self.nonce == _NONCE
        created = _create_time(self.pid)
        if created is None:
            return False
        return None if self.started is None else abs(_steady(created) - self.started) <= _SLACK

    def pid_is_taken(self) -> bool:
        """True when some process has the pid now."""
        return _create_time(self.pid) is not None


def this_process() -> ProcessIdentity:
    """The calling process."""
    started = _steady(psutil.Process().create_time())
    return ProcessIdentity(socket.gethostname(), _boot(), os.getpid(), started, _NONCE)


def pid_file_fields() -> dict[str, object]:
    """The fields of a pid file for the calling process; older versions read `started`, in seconds since the epoch."""
    current = this_process()
    return {"pid": current.pid, "started": psutil.Process().create_time(), "process": str(current)}


def process_in(fields: object) -> ProcessIdentity | None:
    """The process a pid file names, from the fields above or from the bare pid that the original program writes."""
    found: Mapping[object, object] = fields if isinstance(fields, dict) else {"pid": fields}
    pid, started, text = found.get("pid"), found.get("started"), found.get("process")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        return None
    try:
        named = ProcessIdentity.parse(text) if isinstance(text, str) else None
    except ValueError:
        named = None
    if named is not None and named.pid == pid:
        return named
    since = _steady(float(started)) if isinstance(started, int | float) else None
    return ProcessIdentity(socket.gethostname(), _boot(), pid, since)


def running_pid(pid_file: Path) -> int | None:
    """The pid in the file if its process is alive. With a bare pid, a process younger than the file is another one."""
    try:
        written_at = pid_file.stat().st_mtime
        named = process_in(json.loads(pid_file.read_text(encoding="utf-8", errors="replace")))
    except (FileNotFoundError, NotADirectoryError, ValueError, RecursionError):
        return None
    if named is None:
        return None
    alive = named.is_alive()
    if alive is None:
        created = _create_time(named.pid)
        alive = created is not None and created <= written_at + _FILE_SLACK
    return named.pid if alive else None


def _create_time(pid: int) -> float | None:
    """The start time of the process with this pid, as psutil reports it; None without one, or for a zombie."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except (psutil.NoSuchProcess, OverflowError, ValueError):
        return None


def _boot() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else "unknown"


def _steady(epoch_seconds: float) -> float:
    """Convert psutil's start time to one that does not change when the clock is set."""
    # Linux counts from boot, and psutil adds a boot time that moves with the clock. Other kernels store the wall time.
    return round(epoch_seconds - psutil.boot_time(), 2) if psutil.LINUX else epoch_seconds


def file_limit() -> int | None:
    """The number of files that may be open, or None when there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def raise_file_limit(enough: int = ENOUGH_FILES) -> None:
    """Raise the soft limit as far as the hard one and `enough` allow; never lower it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    for wanted in (enough, _MACOS_FILES):
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if raised <= soft:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        except (ValueError, OSError):
            continue
        return
