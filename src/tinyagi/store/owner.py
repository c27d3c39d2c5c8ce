"""Who holds a claim: one process on one machine since one boot, told apart from a later process with the same pid."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owner:
    host: str
    boot: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"{self.host}/{self.boot}/{self.pid}/{self.started}"

    @classmethod
    def parse(cls, text: str) -> "Owner":
        # The host name is the only part that may hold a slash.
        host, boot, pid, started = text.rsplit("/", 3)
        return cls(host, boot, int(pid), started)


def this_process() -> Owner:
    """The calling process as an owner."""
    return Owner(socket.gethostname(), _boot_id(), os.getpid(), _start_time(os.getpid()) or "")


def is_alive(owner: Owner) -> bool | None:
    """True or False for a process of this host; None for another host, of which nothing can be known from here."""
    if owner.host != socket.gethostname():
        return None
    if owner.boot != _boot_id():
        return False
    return _exists(owner.pid) and _start_time(owner.pid) == owner.started


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return pid > 0


def _has_proc() -> bool:
    return Path("/proc/self/stat").exists()


def _boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text(encoding="ascii").strip() if path.exists() else "unknown"


def _start_time(pid: int) -> str | None:
    """Clock ticks since boot at the process's start; "" where the system does not tell, None when it is gone."""
    if not _has_proc():
        return ""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in brackets and may itself hold blanks and brackets.
    fields = stat.rpartition(")")[2].split()
    zombie = fields[0] == "Z"
    return None if zombie else fields[19]
