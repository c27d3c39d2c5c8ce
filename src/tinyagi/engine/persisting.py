"""Writes what became of a run, however long the disk is full or the file locked: a finished run is never dropped."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tinyagi.domain.errors import ClaimLost, OutcomeUnknown, StoreBusy, StoreFailed, StoreFull, StoreReadOnly

log = logging.getLogger(__name__)

T = TypeVar("T")

PASSING: Final = (StoreBusy, StoreFull, StoreFailed, StoreReadOnly, OutcomeUnknown)
"""What a store may recover from: the same write is tried again."""

_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 30.0


async def insist(write: Callable[[], Awaitable[T]], what: Callable[[], str], halt: asyncio.Event) -> T | None:
    """Like `persist`, whatever the error: for a write that has no alternative. The lane waits, and the log says why."""
    return await persist(write, what, halt, passing=(Exception,))


async def persist(
    write: Callable[[], Awaitable[T]],
    what: Callable[[], str],
    halt: asyncio.Event,
    passing: tuple[type[Exception], ...] = PASSING,
) -> T | None:
    """Return the write's result; None when the claim is gone, or when the engine halts before the store recovers."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await write()
        except ClaimLost as error:
            # After an unknown outcome this is good news: the first try was written after all.
            log.warning("%s was not written: %s", what(), error)
            return None
        except passing as error:
            unforeseen = None if isinstance(error, PASSING) else error
            log.error(  # noqa: TRY400 - what a store recovers from needs no stack
                "%s cannot be written yet, next try in %g s: %s", what(), pause, error, exc_info=unforeseen
            )
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(halt.wait(), pause)
        if halt.is_set():
            return None
        pause = min(2 * pause, _LONGEST_PAUSE)
