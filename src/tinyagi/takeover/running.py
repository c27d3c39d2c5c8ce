"""Whether a daemon, ours or the original's, is at work on a home: then nothing is taken over."""

import json
from pathlib import Path
from typing import Final

import psutil

from tinyagi.domain.errors import Conflict

_PID_FILES: Final = ("tinyagi.pid", "tinyclaw.pid")
_SLACK: Final = 2.0
"""Seconds between what a process and the file system call the same moment."""


def refuse_while_running(*homes: Path) -> None:
    """Raise Conflict when a pid file in one of the homes names a process that lives."""
    for path in dict.fromkeys(homes):
        for name in _PID_FILES:
            pid = running_pid(path / name)
            if pid is not None:
                raise Conflict(
                    f"A daemon (process {pid}) is running on {path}. Stop it first: tinyagi stop; nothing was changed."
                )


def running_pid(file: Path) -> int | None:
    """The process that wrote the file, if it lives; a process that is younger than the file only has its number."""
    try:
        written_at = file.stat().st_mtime
        pid = _pid_of(file.read_text(encoding="utf-8", errors="replace"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    if pid is None:
        return None
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE or process.create_time() > written_at + _SLACK:
            return None
    except psutil.NoSuchProcess:
        return None
    return pid


def _pid_of(text: str) -> int | None:
    """The number, bare as the original writes it, or as `pid` of an object."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    if isinstance(found, dict):
        found = found.get("pid")
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None
