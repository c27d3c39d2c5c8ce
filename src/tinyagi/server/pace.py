"""Keeps a kind of work to its share of the event loop: whoever has worked makes the next one wait."""

import asyncio
import time
from typing import Final

SHARE: Final = 0.1
LONGEST_WAIT: Final = 2.0
"""Seconds. One piece of work that took long, perhaps because the machine stood still, delays the next no further."""


class Pace:
    """After rest the next piece of work begins at once; under a flood work takes its share of the time and no more."""

    def __init__(self, share: float = SHARE) -> None:
        self._share = share
        self._free_at = 0.0

    def spend(self, seconds: float) -> None:
        now = time.perf_counter()
        self._free_at = min(max(self._free_at, now) + seconds / self._share, now + LONGEST_WAIT)

    async def turn(self) -> None:
        """Return when work may be done again."""
        while (wait := self._free_at - time.perf_counter()) > 0:  # noqa: ASYNC110 - others work meanwhile
            await asyncio.sleep(wait)
