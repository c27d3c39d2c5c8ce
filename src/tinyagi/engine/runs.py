"""A run under way: the claim it carries out, and how it can be ended before its time."""

import asyncio
from dataclasses import dataclass

from tinyagi.domain.messages import Claim, Outcome


@dataclass(frozen=True, slots=True)
class Stopped:
    """A person ended it: its messages are dead."""

    by: str


@dataclass(frozen=True, slots=True)
class GivenBack:
    """Ended without a verdict: its messages are as they were."""

    reason: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The claim is gone: nothing may be written for it any more."""


Ending = Stopped | GivenBack | Lost


class Run:
    """One claim and the task that carries it out. The first ending counts; a run that is done has none."""

    def __init__(self, claim: Claim, work: asyncio.Task[Outcome]) -> None:
        self.claim = claim
        self.work = work
        self.ending: Ending | None = None
        self.settled = asyncio.Event()
        """What became of it is written."""

    def end(self, ending: Ending) -> bool:
        """Ask for the end; False when it is over or being ended already. `finished` tells when no child is left."""
        if self.ending is not None or self.work.done():
            return False
        self.ending = ending
        self.work.cancel()
        return True

    async def finished(self) -> None:
        """Wait until the work is over, well or not."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.work.add_done_callback(lambda _: None if over.done() else over.set_result(None))
        await over
