"""Held and paused lanes as sentences: the reason and the remedy, worded once for every command."""

import time
from dataclasses import dataclass
from typing import Final, Self

from tinyagi.api.queue import LaneStatus
from tinyagi.domain.instants import clock_time
from tinyagi.domain.retry import HoldCause

PAUSED: Final = "paused by a person"


@dataclass(frozen=True, slots=True)
class Hold:
    """A lane that is held or paused."""

    agent: str
    reason: str
    until: int | None = None
    """In ms; None when only a person can end it."""

    @classmethod
    def by_queue(cls, agent: str, reason: str, until: int, cause: str | None) -> Self:
        """A hold by the queue. Its end is left out when a person must fix something first."""
        return cls(agent, reason, None if cause == HoldCause.FIX else until)

    @classmethod
    def of_lane(cls, lane: LaneStatus) -> Self | None:
        """Return the lane's hold, or None when it is neither held nor paused."""
        if lane.paused:
            return cls(lane.agent, PAUSED)
        if not lane.hold_until:
            return None
        return cls.by_queue(lane.agent, lane.hold_reason or "", lane.hold_until, lane.hold_cause)

    @property
    def state(self) -> str:
        """Reason and remedy, for a line that names the agent already."""
        return f"{self._what}. {self._remedy}"

    @property
    def sentence(self) -> str:
        return f"@{self.agent} is {self._what}; the message waits. {self._remedy}"

    @property
    def _what(self) -> str:
        if self.reason == PAUSED:
            return "paused"
        end = "" if self.until is None else f" until {clock_time(self.until, time.time_ns() // 1_000_000)}"
        return f"held{end}: {self.reason.rstrip('.')}"

    @property
    def _remedy(self) -> str:
        command = f"tinyagi queue resume {self.agent}"
        if self.reason == PAUSED:
            return f"Resume it: {command}"
        return f"To try again{'' if self.until is None else ' at once'}: {command}"
