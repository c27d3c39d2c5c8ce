"""What a run of the pipeline looks like while it goes on, and when it is done."""

from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from tinyagi.cli.screen import console, print_table, say

if TYPE_CHECKING:
    from tinyagi.pipeline.progress import Summary

TABLES: Final = 16
"""All but bronze.events."""
_STAGES: Final = {"ingest": "events", "silver": "silver", "gold": "gold", "tidy": "tidying up"}


class Bars:
    """A bar per stage on stderr; nothing when that is no terminal."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        self._bars = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[now]}"),
            TimeElapsedColumn(),
            console=console(err=True),
            disable=not console(err=True).is_terminal,
        )
        self._events = self._bars.add_task("starting Spark", total=None, now="")
        self._tables = self._bars.add_task("tables", total=TABLES, now="", visible=False)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def began(self, stage: str) -> None:
        if stage == "ingest":
            self._bars.update(self._events, description="events")
        else:
            self._bars.update(self._tables, visible=True, description=_STAGES[stage], now="")

    def arrived(self, events: int, of: int) -> None:
        self._bars.update(self._events, completed=events, total=of)

    def planned(self, table: str) -> None:
        self._bars.update(self._tables, now=table)

    def staged(self, table: str) -> None: ...
    def moved(self, table: str) -> None: ...

    def committed(self, table: str, rows: int) -> None:  # noqa: ARG002 - the summary tells it
        if not table.startswith("bronze"):
            self._bars.advance(self._tables)

    def finishing(self) -> None:
        self._bars.update(self._tables, now="")


def show_summary(summary: "Summary") -> None:
    """Say what a run did."""
    if not summary.rows:
        say(f"Nothing is new: the lake has every event up to {summary.through_id}.")
        return
    took = sum(summary.seconds.get(stage, 0.0) for stage in _STAGES)
    say(f"{summary.events} events in {took:.1f} s; the lake has every event up to {summary.through_id}.")
    print_table(
        ("table", "rows written#", "seconds#"),
        [(name, rows, _seconds(summary, name)) for name, rows in summary.rows.items()],
        empty="",
    )
    if summary.quarantined:
        say(f"{summary.quarantined} events broke an expectation; the table quarantine.events says which.")


def _seconds(summary: "Summary", table: str) -> str:
    seconds = summary.seconds.get("ingest" if table.startswith("bronze") else table)
    return "" if seconds is None else f"{seconds:.1f}"
