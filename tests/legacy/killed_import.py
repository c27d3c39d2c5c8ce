"""An import that is killed with -9 before its first step, before its second, and so on, each time into another home.

After a kill the import is started again, killed again, and then left to finish. A step is a renamed file or a write of
the store. Every attempt is a forked process, because importing all modules again would take most of the time. The fork
comes before any thread is started. Prints the number of homes.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from tinyagi.legacy.apply import apply_plan
from tinyagi.legacy.old_home import OldHome
from tinyagi.legacy.planner import make_plan
from tinyagi.settings.home import Home
from tinyagi.store.writer import Writer

NOW = 1_790_000_000_000


async def import_home(old: OldHome, home: Home, *, die_before: int) -> None:
    plan = await make_plan(old, home, now=NOW)
    # Planning takes no step: it uses another store.
    _watch(_killer(die_before))
    await apply_plan(plan, now=NOW)


def _killer(last: int) -> Callable[[], None]:
    steps = count(1)

    def step() -> None:
        if next(steps) == last:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def _watch(step: Callable[[], None]) -> None:
    sys.addaudithook(lambda event, _: step() if event == "os.rename" else None)
    write = Writer.write

    async def watched(self: Writer, *request: Any, **options: Any) -> Any:
        step()
        return await write(self, *request, **options)

    Writer.write = watched  # type: ignore[method-assign]


def attempt(old: OldHome, home: Home, *, die_before: int = 0) -> bool:
    """False when it was killed."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            asyncio.run(import_home(old, home, die_before=die_before))
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in {0, -signal.SIGKILL}:
        raise RuntimeError(f"The takeover failed by itself, with {code}.")
    return code == 0


if __name__ == "__main__":
    old, folder = OldHome(Path(sys.argv[1])), Path(sys.argv[2])
    for step in count(1):
        home = Home(folder / str(step))
        if attempt(old, home, die_before=step):
            break
        if not attempt(old, home, die_before=step):
            attempt(old, home)
    print(step)  # noqa: T201 - the parent reads it
