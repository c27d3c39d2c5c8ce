"""Kills a restore with -9 before its first step, before its second, and so on, each time in another home.

A step creates, moves or removes a file. Every attempt is a forked process, because imports would take most of the
time of a new one. Prints the number of homes.

    python -m tests.backup.dying ARCHIVE TEMPLATE FOLDER
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tinyagi.backup.restore import restore
from tinyagi.backup.swap import finish
from tinyagi.settings.home import Home

NOW = 1_795_000_000_000
STEPS = frozenset({"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.symlink", "os.truncate"})


def attempt(work: Callable[[], object], *, die_before: int) -> bool:
    """Run `work` in a child process; False when it was killed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            steps = count(1)

            def step(event: str, _: object) -> None:
                if event in STEPS and next(steps) == die_before:
                    os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(step)
            work()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in {0, -signal.SIGKILL}:
        raise RuntimeError(f"The restore failed with {code}, not by the signal.")
    return code == 0


if __name__ == "__main__":
    archive, template, folder = map(Path, sys.argv[1:])
    for number in count(1):
        home = Home(folder / str(number))
        shutil.copytree(template, home.path, symlinks=True)
        if attempt(lambda home=home: restore(archive, home, now=NOW), die_before=number):  # type: ignore[misc]
            break
        if number % 2:
            # Every second time the completion at the next start is killed too.
            attempt(lambda home=home: finish(home), die_before=1 + number % 7)  # type: ignore[misc]
    print(number)  # noqa: T201 - the parent reads it
