"""Progress bars and the summary of pipeline commands."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from tinyagi.cli.terminal import console, print_table, say
from tinyagi.pipeline.progress import Progress

if TYPE_CHECKING:
    from tinyagi.lake_service import LakeService
    from tinyagi.pipeline.progress import Summary
    from tinyagi.pipeline.spark.lake_session import LakeSession

TABLES: Final = 16
"""All tables except bronze.events."""
_STAGES: Final = {"ingest": "events", "silver": "silver", "gold": "gold", "tidy": "tidying up"}


class ProgressBars(Progress):
    """A progress bar per stage on stderr; nothing when stderr is not a terminal."""

    def __init__(self) -> None:
        from rich import progress

        self._bars = progress.Progress(
            progress.TextColumn("{task.description:<12}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[now]}"),
            progress.TimeElapsedColumn(),
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

    def committed(self, table: str, rows: int) -> None:  # noqa: ARG002 - the summary shows it
        if not table.startswith("bronze"):
            self._bars.advance(self._tables)

    def finishing(self) -> None:
        self._bars.update(self._tables, now="")


@contextmanager
def reading(service: "LakeService") -> "Iterator[LakeSession]":
    """Open a Spark session on the lake; shows a status line, because Spark takes seconds to start."""
    with ExitStack() as stack:
        with console(err=True).status("Starting Spark"):
            session = stack.enter_context(service.reading())
        yield session


def show_summary(summary: "Summary") -> None:
    """Print what a run did."""
    if not summary.rows:
        say(f"There are no new events: the lake has every event up to {summary.through_id}.")
        return
    took = sum(summary.seconds.get(stage, 0.0) for stage in _STAGES)
    say(f"{summary.events} events in {took:.1f} s; the lake has every event up to {summary.through_id}.")
    print_table(
        ("table", "rows written#", "seconds#"),
        [(name, rows, _seconds(summary, name)) for name, rows in summary.rows.items()],
        empty="",
    )
    if summary.quarantined:
        say(f"{summary.quarantined} events are in quarantine; the table quarantine.events has the reasons.")


def _seconds(summary: "Summary", table: str) -> str:
    seconds = summary.seconds.get("ingest" if table.startswith("bronze") else table)
    return "" if seconds is None else f"{seconds:.1f}"
