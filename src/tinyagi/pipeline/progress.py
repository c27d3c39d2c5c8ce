"""What a run of the pipeline tells while it works. A screen shows it; a test may do worse at any of these points."""

from dataclasses import dataclass, field
from typing import Protocol


class Progress(Protocol):
    def began(self, stage: str) -> None:
        """A stage begins: `ingest`, `silver`, `gold`, `tidy`."""

    def arrived(self, events: int, of: int) -> None:
        """So many of the new events are in bronze.events."""

    def planned(self, table: str) -> None:
        """What is to be written is known; nothing is written yet."""

    def staged(self, table: str) -> None:
        """Its files are written, aside."""

    def moved(self, table: str) -> None:
        """Its files are in their place, where nobody sees them yet."""

    def committed(self, table: str, rows: int) -> None:
        """They are part of the table."""

    def finishing(self) -> None:
        """Every table is up to date; the manifest is not."""


class Silent:
    """Tells nobody."""

    def began(self, stage: str) -> None: ...
    def arrived(self, events: int, of: int) -> None: ...
    def planned(self, table: str) -> None: ...
    def staged(self, table: str) -> None: ...
    def moved(self, table: str) -> None: ...
    def committed(self, table: str, rows: int) -> None: ...
    def finishing(self) -> None: ...


@dataclass(slots=True)
class Summary:
    """What a run did."""

    run_id: str
    kind: str
    started_at: int
    ended_at: int = 0
    from_id: int = 0
    through_id: int = 0
    events: int = 0
    quarantined: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    """Rows written per table."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds per stage and per table."""
