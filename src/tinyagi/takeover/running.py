"""Whether a daemon, ours or the original's, is at work on a home: then nothing is taken over."""

from pathlib import Path
from typing import Final

from tinyagi.domain.errors import Conflict
from tinyagi.system.processes import running_pid

_PID_FILES: Final = ("tinyagi.pid", "tinyclaw.pid")


def refuse_while_running(*homes: Path) -> None:
    """Raise Conflict when a pid file in one of the homes names a process that lives."""
    for path in dict.fromkeys(homes):
        for name in _PID_FILES:
            pid = running_pid(path / name)
            if pid is not None:
                raise Conflict(
                    f"A daemon (process {pid}) is running on {path}. Stop it first: tinyagi stop; nothing was changed."
                )
