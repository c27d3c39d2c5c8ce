"""How a stored database is, seen from the outside and without changing it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaneHealth:
    """A lane that needs a look."""

    agent: str
    pending: int
    dead: int
    paused: bool
    hold_until: int
    """Milliseconds; 0 when it is not held."""
    hold_reason: str | None


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """What a look shows; `verdict` is "ok" for a file that is whole."""

    verdict: str
    version: int
    """The last migration that the database has seen; 0 for none of ours."""
    newest: int
    """The last one that this version knows."""
    size: int
    """Bytes, with the write-ahead log."""
    last_event: int = 0
    """The newest id that the event log has given; 0 when the version is unknown."""
    lanes: tuple[LaneHealth, ...] = ()
    """Empty when the version is another: its tables may be others too."""
