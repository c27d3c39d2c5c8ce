"""`tinyagi pipeline`: updates, inspects and maintains the lake, with progress bars and the summary of a run.

See pipeline_query.py and pipeline_data.py for the commands on its data.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Final, Self

import typer

from tinyagi.cli.context import edit_settings, installation
from tinyagi.cli.options import Json, Yes, examples
from tinyagi.cli.terminal import (
    WrongCall,
    confirm,
    console,
    duration,
    note,
    print_fields,
    print_json,
    print_table,
    say,
    when,
)
from tinyagi.domain.texts import size_text
from tinyagi.pipeline.progress import Progress, Summary

if TYPE_CHECKING:
    from tinyagi.lake_service import LakeService
    from tinyagi.pipeline.manage.status import LakeStatus
    from tinyagi.pipeline.spark.lake_session import LakeSession

app = typer.Typer(
    help="The lake: every event as tables, made by Spark. Update it, query it, report on it, replay from it.",
    no_args_is_help=True,
)

BUSY: Final = 75
"""Another process writes the lake: try again later (EX_TEMPFAIL)."""
_EXTRA: Final = frozenset({"deltalake", "duckdb", "pyarrow", "plotly", "pyspark", "py4j"})
_UPDATED_TABLES: Final = 16
"""All tables except bronze.events."""
_STAGES: Final = {"rebuild": "rebuilding", "ingest": "events", "silver": "silver", "gold": "gold", "tidy": "tidying up"}


@app.command("run", epilog=examples("tinyagi pipeline run", "tinyagi pipeline run --json"))
def run(
    ctx: typer.Context,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print errors only.")] = False,
    as_json: Json = False,
) -> None:
    """Load all new events into the lake now. The daemon does the same when there are enough of them."""
    summary = _without_news(ctx)
    if summary is None:
        with open_lake(ctx) as service, ProgressBars() as bars:
            summary = service.run(bars)
    if as_json:
        print_json(summary)
    elif not quiet:
        show_summary(summary)


def _without_news(ctx: typer.Context) -> Summary | None:
    """The result of a run that has nothing to do, without loading Delta or Spark; None when a run is needed."""
    from tinyagi.pipeline.ingest.log_source import has_nothing_to_do
    from tinyagi.pipeline.manifest import LAKE_MANIFEST, read_manifest

    home = installation(ctx).home
    if not home.database.is_file() or not has_nothing_to_do(home.lake, home.database):
        return None
    manifest = read_manifest(home.lake / LAKE_MANIFEST)
    through = 0 if manifest is None else manifest.through_id
    now = time.time_ns() // 1_000_000
    return Summary("", "run", now, now, from_id=through, through_id=through)


@app.command("follow", epilog=examples("tinyagi pipeline follow"))
def follow(ctx: typer.Context) -> None:
    """Load events into the lake as they come, until Ctrl-C."""

    def done(summary: Summary) -> None:
        took = sum(summary.seconds.get(stage, 0.0) for stage in _STAGES)
        say(f"{when(summary.ended_at)}  {summary.events} events up to {summary.through_id} in {took:.1f} s")

    with open_lake(ctx) as service:
        note("Loading events as they come. Ctrl-C stops; the next run continues from there.")
        try:
            service.follow(Progress(), done)
        except KeyboardInterrupt:
            note("Stopped.")


@app.command("status", epilog=examples("tinyagi pipeline status", "tinyagi pipeline status --json"))
def status(ctx: typer.Context, as_json: Json = False) -> None:
    """Show the last event in the lake, its size, and what the last run did."""
    found = _lake_status(ctx)
    if as_json:
        print_json(found)
        return
    if found is None:
        say("There is no lake yet. Run `tinyagi pipeline run`.")
        return
    last = found.last_run or {}
    print_fields(
        [
            ("lake", found.folder),
            (
                "up to event",
                f"{found.through_id} of {found.head_id}" + (f", {found.behind} behind" if found.behind else ""),
            ),
            ("written", when(found.written_at)),
            ("size", f"{size_text(found.bytes)} in {sum(table.files for table in found.tables)} files"),
            ("last run", _last_run(last)),
        ]
    )


@app.command("tables", epilog=examples("tinyagi pipeline tables", "tinyagi pipeline tables silver.runs"))
def tables(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="A table, to see its columns.")] = None,
    as_json: Json = False,
) -> None:
    """List the tables of the lake with their size, or the columns of one with their meaning."""
    from tinyagi.pipeline.tables.catalog import TABLES, find_table

    if name is not None:
        table = find_table(name)
        if as_json:
            print_json(table)
            return
        say(f"{table.name}: {table.meaning}")
        print_table(
            ("column", "type", "unit", "key", "personal", "meaning"),
            [
                (one.name, one.type, one.unit, one.name in table.key, one.personal, one.meaning)
                for one in table.all_columns
            ],
            empty="",
        )
        return
    found = _lake_status(ctx)
    existing = {} if found is None else {table.name: table for table in found.tables}
    if as_json:
        print_json([existing.get(one) or {"name": one, "meaning": TABLES[one].meaning} for one in TABLES])
        return
    print_table(
        ("table", "rows#", "files#", "size#", "newest day", "one row is"),
        [
            (one, state.rows, state.files, size_text(state.bytes), state.newest, TABLES[one].meaning)
            if (state := existing.get(one))
            else (one, "", "", "", "", TABLES[one].meaning)
            for one in TABLES
        ],
        empty="",
    )


@app.command("verify", epilog=examples("tinyagi pipeline verify", "tinyagi pipeline verify --json"))
def verify(ctx: typer.Context, as_json: Json = False) -> None:
    """Compute every table again and compare: log, bronze, silver and gold. Exit code 1 when they disagree."""
    verdicts = []
    with open_lake(ctx) as service:
        for verdict in service.verify():
            verdicts.append(verdict)
            if not as_json:
                word = "agrees" if verdict.agrees else "DISAGREES"
                say(f"{verdict.table:<24} {verdict.rows:>12} rows  {verdict.expected:>12} expected  {word}")
    if as_json:
        print_json(verdicts)
    if not all(verdict.agrees for verdict in verdicts):
        note("The lake differs from the events. Rebuild it from bronze: `tinyagi pipeline backfill`.")
        raise typer.Exit(1)


@app.command("backfill", epilog=examples("tinyagi pipeline backfill --yes"))
def backfill(ctx: typer.Context, yes: Yes = False, as_json: Json = False) -> None:
    """Rebuild silver and gold from bronze. Readers see the old tables until the new ones are done."""
    confirm("Rebuild every table except bronze?", yes=yes)
    with open_lake(ctx) as service, ProgressBars() as bars:
        summary = service.backfill(bars)
    if as_json:
        print_json(summary)
    else:
        show_summary(summary)


@app.command("compact", epilog=examples("tinyagi pipeline compact"))
def compact(ctx: typer.Context, as_json: Json = False) -> None:
    """Merge the small files of a day. A run does this for days with many files."""
    with open_lake(ctx) as service, ProgressBars() as bars:
        gone = service.compact(bars)
    if as_json:
        print_json(gone)
        return
    print_table(("table", "files saved#"), list(gone.items()), empty="There was nothing to merge.")


@app.command("vacuum", epilog=examples("tinyagi pipeline vacuum", "tinyagi pipeline vacuum --keep-hours 0 --yes"))
def vacuum(
    ctx: typer.Context,
    keep_hours: Annotated[int, typer.Option("--keep-hours", min=0, help="Keep files younger than this.")] = 24,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete files that no table uses any more. Older versions of the tables become unreadable."""
    if keep_hours < 24:
        confirm("A program that is reading the lake may fail, because its files are deleted. Continue?", yes=yes)
    with open_lake(ctx) as service:
        gone = service.vacuum(timedelta(hours=keep_hours))
    if as_json:
        print_json({"deleted": gone})
    else:
        say(f"Deleted {gone} files.")


@app.command("detach", epilog=examples("tinyagi pipeline detach --yes"))
def detach(ctx: typer.Context, yes: Yes = False) -> None:
    """Stop feeding the lake: the daemon no longer runs the pipeline, and pruning no longer waits for it."""
    confirm("Events pruned from now on will be missing in the lake. Continue?", yes=yes)
    edit_settings(ctx, lambda backend: backend.update({"pipeline": {"enabled": False}}))
    with open_lake(ctx) as service:
        service.detach()
    say("Detached. The lake is kept. To attach it again, set pipeline.enabled to true and run `tinyagi pipeline run`.")


@contextmanager
def open_lake(ctx: typer.Context) -> "Iterator[LakeService]":
    """The lake of this installation; a busy lake ends the command with exit code 75."""
    with requires_pipeline_extra():
        from tinyagi.lake_service import LakeService
        from tinyagi.pipeline.errors import LakeBusy
    place = installation(ctx)
    address = place.address()
    try:
        yield LakeService(place.home, url=address.url if address.is_known else None)
    except LakeBusy as error:
        note(f"tinyagi: {error}")
        raise typer.Exit(BUSY) from error


@contextmanager
def requires_pipeline_extra() -> Iterator[None]:
    """Name the extra to install when the packages of the pipeline are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise WrongCall(
            f"The extra `pipeline` is missing ({error.name} is not installed). Run: pip install 'tinyagi[pipeline]'"
        ) from error


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
        self._tables = self._bars.add_task("tables", total=_UPDATED_TABLES, now="", visible=False)

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


def show_summary(summary: Summary) -> None:
    """Print what a run did."""
    if not summary.rows:
        say(f"There are no new events: the lake has every event up to {summary.through_id}.")
        return
    if "rebuild" in summary.seconds:
        say("The lake was from an earlier version of TinyAGI; its tables were rebuilt from bronze.events.")
    took = sum(summary.seconds.get(stage, 0.0) for stage in _STAGES)
    say(f"{summary.events} events in {took:.1f} s; the lake has every event up to {summary.through_id}.")
    print_table(
        ("table", "rows written#", "seconds#"),
        [(name, rows, _seconds(summary, name)) for name, rows in summary.rows.items()],
        empty="",
    )
    if summary.quarantined:
        say(f"{summary.quarantined} events are in quarantine; the table quarantine.events has the reasons.")


def _seconds(summary: Summary, table: str) -> str:
    seconds = summary.seconds.get("ingest" if table.startswith("bronze") else table)
    return "" if seconds is None else f"{seconds:.1f}"


def _lake_status(ctx: typer.Context) -> "LakeStatus | None":
    with requires_pipeline_extra():
        from tinyagi.pipeline.lake import Lake
        from tinyagi.pipeline.manage.status import lake_status
    home = installation(ctx).home
    return lake_status(Lake(home.lake), home.database)


def _last_run(last: dict[str, object]) -> str:
    if not last:
        return ""
    took = int(str(last["ended_at"])) - int(str(last["started_at"]))
    return f"{last['kind']}, {last['events']} events in {duration(took)}, ended {when(int(str(last['ended_at'])))}"
