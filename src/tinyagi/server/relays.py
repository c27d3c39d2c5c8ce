"""The relays: which process serves each chat channel now, and what it says about itself."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tinyagi.api.channels import RelayReport
from tinyagi.domain.errors import Conflict
from tinyagi.domain.instants import millis
from tinyagi.system.clock import wall_clock

LEASE: Final = timedelta(seconds=15)
"""A relay that has not reported for this long may be replaced."""


@dataclass(frozen=True, slots=True)
class _Lease:
    report: RelayReport
    until: int


class Relays:
    """One relay per channel: two would deliver every response twice. Kept in memory; relays report again at once."""

    def __init__(self, clock: Callable[[], int] = wall_clock) -> None:
        self._clock = clock
        self._leases: dict[str, _Lease] = {}

    def report(self, channel: str, report: RelayReport) -> None:
        """Take or renew the lease; raise Conflict when another relay has it."""
        current = self.of(channel)
        if current is not None and current.owner != report.owner:
            raise Conflict(
                f"Another process serves {channel} ({current.owner}). Stop it first: tinyagi channel stop {channel}, "
                f"or end the process on its machine. A process that crashed frees the channel after {LEASE.seconds} s."
            )
        self._leases[channel] = _Lease(report, self._clock() + millis(LEASE))

    def release(self, channel: str, owner: str | None = None) -> None:
        """End the lease of this owner, or of any; does nothing when another relay has it."""
        current = self._leases.get(channel)
        if current is not None and owner in {None, current.report.owner}:
            del self._leases[channel]

    def of(self, channel: str) -> RelayReport | None:
        """The last report of the relay that serves the channel; None when there is none."""
        lease = self._leases.get(channel)
        return lease.report if lease is not None and lease.until > self._clock() else None

    def serving(self) -> list[str]:
        """Channels that a relay serves."""
        return [channel for channel in self._leases if self.of(channel) is not None]
