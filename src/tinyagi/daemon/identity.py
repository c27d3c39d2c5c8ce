"""Which process a pid file means: a number alone would mean a stranger as soon as the system gives it out again."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import psutil

from tinyagi.store.owner import Owner, is_alive, this_process

_SLACK: Final = 1.0
"""Seconds: a system may tell a start time a little differently the next time."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A process, told apart from a later one with the same number."""

    pid: int
    started: float | None = None
    """Seconds since the epoch; None in a file of the original, which holds a bare number."""
    owner: Owner | None = None
    """Machine, boot and ticks since boot, which no change of the clock moves."""

    @classmethod
    def own(cls) -> "Identity":
        """The calling process."""
        pid = os.getpid()
        return cls(pid, psutil.Process(pid).create_time(), this_process())

    @classmethod
    def parse(cls, fields: Mapping[str, object]) -> "Identity | None":
        """What `fields` wrote, or None for anything else."""
        pid, started, process = fields.get("pid"), fields.get("started"), fields.get("process")
        if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
            return None
        return cls(pid, float(started) if isinstance(started, int | float) else None, _owner(process, pid))

    def fields(self) -> dict[str, object]:
        return {"pid": self.pid, "started": self.started, "process": str(self.owner)}

    @property
    def is_elsewhere(self) -> bool:
        """True for a process of another machine, or of another container, of which nothing can be known from here."""
        return self.owner is not None and self.owner.host != socket.gethostname()

    def is_alive(self) -> bool:
        """True only when this very process is there; one that merely has its number is another."""
        if self.is_elsewhere:
            return False
        if self.owner is not None and self.owner.started:
            return is_alive(self.owner) is True
        try:
            process = psutil.Process(self.pid)
            if process.status() == psutil.STATUS_ZOMBIE or self.started is None:
                return False
            return abs(process.create_time() - self.started) < _SLACK
        except (psutil.Error, OverflowError):
            return False

    def number_is_taken(self) -> bool:
        """True when some process has the number now, other than one that has ended and is not yet cleared away."""
        try:
            return psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE
        except (psutil.NoSuchProcess, OverflowError):
            return False
        except psutil.AccessDenied:
            return True


def _owner(text: object, pid: int) -> Owner | None:
    if not isinstance(text, str):
        return None
    try:
        owner = Owner.parse(text)
    except ValueError:
        return None
    return owner if owner.pid == pid else None
