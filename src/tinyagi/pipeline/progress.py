"""Progress of a pipeline run, for the terminal; tests kill a run at these points. Imports nothing heavy."""

from dataclasses import dataclass, field


class Progress:
    """Ignores all progress; a subclass shows what it wants."""

    def began(self, stage: str) -> None:
        """A stage began: `ingest`, `silver`, `gold` or `tidy`."""

    def arrived(self, events: int, of: int) -> None:
        """`events` of the `of` new events are in bronze.events."""

    def planned(self, table: str) -> None:
        """The table's change is planned; nothing is written yet."""

    def written(self, table: str) -> None:
        """Its files are in the table's folder, not visible before the commit."""

    def committed(self, table: str, rows: int) -> None:
        """Its files are part of the table; 0 rows when there was nothing to write."""

    def finishing(self) -> None:
        """Every table is up to date; the manifest is not written yet."""


@dataclass(slots=True)
class Summary:
    """The result of a run."""

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
