"""What a command costs: its time, the CPU time of all its processes, and the number of Python processes it starts.

The command runs under a supervisor, this file as a script. On Linux the supervisor adopts processes whose parent ends
first, so that their CPU time counts too, and waits until all have ended. A process that lives for less than
`SAMPLE_SECONDS` may be missing from the number of processes, never from the CPU time.
"""

import ctypes
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

SAMPLE_SECONDS: Final = 0.1
LEFT_SECONDS: Final = 20 * 60
"""For processes that the command leaves running: Java may write its class archive after the command has ended."""
_SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""


@dataclass(frozen=True, slots=True)
class Cost:
    seconds: float
    """Until the command itself ended."""
    cpu_seconds: float
    """User and system time of all its processes."""
    python_processes: int
    """Besides the command's own."""


def cost_of(command: Sequence[str | Path], environment: Mapping[str, str]) -> Cost:
    """Run the command and wait for all its processes; end the bench when it fails."""
    supervisor = [sys.executable, str(Path(__file__)), *map(str, command)]
    done = subprocess.run(supervisor, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    return Cost(**json.loads(done.stdout))


def supervise(command: Sequence[str]) -> Cost:
    """As `cost_of`, for a process without other children."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    began = time.perf_counter()
    main = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    names: dict[psutil.Process, str] = {}
    while not _ends_soon(main):
        _sample(names)
    seconds = time.perf_counter() - began
    _wait_for_others(names)
    if main.returncode:
        raise SystemExit(main.returncode)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    pythons = [process for process, name in names.items() if name.startswith("python") and process.pid != main.pid]
    return Cost(seconds, used.ru_utime + used.ru_stime, len(pythons))


def _ends_soon(main: subprocess.Popen[bytes]) -> bool:
    with suppress(subprocess.TimeoutExpired):
        main.wait(SAMPLE_SECONDS)
        return True
    return False


def _sample(names: dict[psutil.Process, str]) -> None:
    """Note the name of every process; a new one has the name of its parent until it starts its program."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            names[process] = process.name()


def _wait_for_others(names: dict[psutil.Process, str]) -> None:
    deadline = time.monotonic() + LEFT_SECONDS
    with suppress(ChildProcessError):
        while time.monotonic() < deadline:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if not pid:
                _sample(names)
                time.sleep(SAMPLE_SECONDS)
        raise SystemExit(f"The command left processes that still run after {LEFT_SECONDS} seconds: {names}")


if __name__ == "__main__":
    print(json.dumps(asdict(supervise(sys.argv[1:]))))
