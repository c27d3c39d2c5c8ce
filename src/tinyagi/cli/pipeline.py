"""`tinyagi pipeline`: the lake on Spark. Heavy imports happen inside the commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.asking import confirm
from tinyagi.cli.context import at_desk, place_of
from tinyagi.cli.edge import WrongCall
from tinyagi.cli.options import Json, Yes, examples
from tinyagi.cli.pipeline_progress import Bars, show_summary
from tinyagi.cli.screen import duration, note, print_fields, print_json, print_table, say, when

if TYPE_CHECKING:
    from tinyagi.keeper import Keeper
    from tinyagi.pipeline.survey import Survey

app = typer.Typer(
    help="Every fact in a lake, by Spark: keep it up to date, look at it, ask it, replay from it.", no_args_is_help=True
)

BUSY: Final = 75
"""Another process writes the lake: try again later (EX_TEMPFAIL)."""
_EXTRA: Final = frozenset({"deltalake", "pyarrow", "plotly", "pyspark", "py4j"})


@app.command("run", epilog=examples("tinyagi pipeline run", "tinyagi pipeline run --json"))
def run(
    ctx: typer.Context,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing unless something goes wrong.")] = False,
    as_json: Json = False,
) -> None:
    """Take everything that is new into the lake. The daemon does it by itself; this does it now."""
    with keeping(ctx) as keeper, Bars() as bars:
        summary = keeper.run(bars)
    if as_json:
        print_json(summary)
    elif not quiet:
        show_summary(summary)


@app.command("follow", epilog=examples("tinyagi pipeline follow"))
def follow(ctx: typer.Context) -> None:
    """Take events into the lake as they come, until Ctrl-C."""
    from tinyagi.pipeline.progress import Silent, Summary  # noqa: PLC0415 - see the module's first line

    def done(summary: Summary) -> None:
        took = sum(summary.seconds.get(stage, 0.0) for stage in ("ingest", "silver", "gold", "tidy"))
        say(f"{when(summary.ended_at)}  {summary.events} events up to {summary.through_id} in {took:.1f} s")

    with keeping(ctx) as keeper:
        note("Following the log. Ctrl-C stops it; nothing is lost by that.")
        try:
            keeper.follow(Silent(), done)
        except KeyboardInterrupt:
            note("Stopped.")


@app.command("status", epilog=examples("tinyagi pipeline status", "tinyagi pipeline status --json"))
def status(ctx: typer.Context, as_json: Json = False) -> None:
    """Show how far the lake is, how large, and what the last run did."""
    found = _survey(ctx)
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
            ("size", f"{found.bytes / 1e6:.1f} MB in {sum(table.files for table in found.tables)} files"),
            ("last run", _told(last)),
        ]
    )


@app.command("tables", epilog=examples("tinyagi pipeline tables", "tinyagi pipeline tables silver.runs"))
def tables(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="A table, to see its columns.")] = None,
    as_json: Json = False,
) -> None:
    """List the tables of the lake with their size, or the columns of one with their meaning."""
    from tinyagi.pipeline.tables.catalog import TABLES, find_table  # noqa: PLC0415 - see the module's first line

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
    found = _survey(ctx)
    there = {} if found is None else {table.name: table for table in found.tables}
    if as_json:
        print_json([there.get(one) or {"name": one, "meaning": TABLES[one].meaning} for one in TABLES])
        return
    print_table(
        ("table", "rows#", "files#", "MB#", "newest day", "one row is"),
        [
            (one, state.rows, state.files, f"{state.bytes / 1e6:.1f}", state.newest, TABLES[one].meaning)
            if (state := there.get(one))
            else (one, "", "", "", "", TABLES[one].meaning)
            for one in TABLES
        ],
        empty="",
    )


@app.command("verify", epilog=examples("tinyagi pipeline verify", "tinyagi pipeline verify --json"))
def verify(ctx: typer.Context, as_json: Json = False) -> None:
    """Work every table out afresh and compare: log, bronze, silver and gold. Exit code 1 when they disagree."""
    verdicts = []
    with keeping(ctx) as keeper:
        for verdict in keeper.verify():
            verdicts.append(verdict)
            if not as_json:
                word = "agrees" if verdict.agrees else "DISAGREES"
                say(f"{verdict.table:<24} {verdict.rows:>12} rows  {verdict.expected:>12} expected  {word}")
    if as_json:
        print_json(verdicts)
    if not all(verdict.agrees for verdict in verdicts):
        note("The lake does not say what the events say. `tinyagi pipeline backfill` makes it afresh from bronze.")
        raise typer.Exit(1)


@app.command("backfill", epilog=examples("tinyagi pipeline backfill --yes"))
def backfill(ctx: typer.Context, yes: Yes = False, as_json: Json = False) -> None:
    """Make silver and gold afresh from bronze. Readers see the old tables until the new ones are done."""
    confirm("Every table but bronze is made afresh. Go on?", yes=yes)
    with keeping(ctx) as keeper, Bars() as bars:
        summary = keeper.backfill(bars)
    if as_json:
        print_json(summary)
    else:
        show_summary(summary)


@app.command("compact", epilog=examples("tinyagi pipeline compact"))
def compact(ctx: typer.Context, as_json: Json = False) -> None:
    """Join small files of a day. Runs do it by themselves when a day has many."""
    with keeping(ctx) as keeper, Bars() as bars:
        gone = keeper.compact(bars)
    if as_json:
        print_json(gone)
        return
    print_table(("table", "files less#"), list(gone.items()), empty="There was nothing to join.")


@app.command("vacuum", epilog=examples("tinyagi pipeline vacuum", "tinyagi pipeline vacuum --keep-hours 0 --yes"))
def vacuum(
    ctx: typer.Context,
    keep_hours: Annotated[int, typer.Option("--keep-hours", min=0, help="Younger files stay.")] = 24,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete files that no table has any more. Older versions of the tables cannot be read afterwards."""
    if keep_hours < 24:
        confirm("Whoever reads the lake right now may lose the files under their hands. Go on?", yes=yes)
    with keeping(ctx) as keeper:
        gone = keeper.vacuum(timedelta(hours=keep_hours))
    if as_json:
        print_json({"deleted": gone})
    else:
        say(f"{gone} files were deleted.")


@app.command("detach", epilog=examples("tinyagi pipeline detach --yes"))
def detach(ctx: typer.Context, yes: Yes = False) -> None:
    """Give the lake up: the daemon no longer feeds it, and the database is pruned without waiting for it."""
    confirm("Events that are pruned from now on will be missing in the lake. Go on?", yes=yes)
    at_desk(ctx, lambda desk: desk.update({"pipeline": {"enabled": False}}))
    with keeping(ctx) as keeper:
        keeper.detach()
    say("Detached. The lake stays as it is; to go on: set pipeline.enabled to true and run `tinyagi pipeline run`.")


@contextmanager
def keeping(ctx: typer.Context) -> "Iterator[Keeper]":
    with extra_needed():
        from tinyagi.keeper import Keeper  # noqa: PLC0415 - see the module's first line
        from tinyagi.pipeline.errors import LakeBusy  # noqa: PLC0415
    place = place_of(ctx)
    address = place.address()
    try:
        yield Keeper(place.home, url=address.url if address.is_known else None)
    except LakeBusy as error:
        note(f"tinyagi: {error}")
        raise typer.Exit(BUSY) from error


@contextmanager
def extra_needed() -> Iterator[None]:
    """Say how to get them when the packages of the pipeline are not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        raise WrongCall(
            f"The extra `pipeline` is missing ({error.name} is not installed). Run: pip install 'tinyagi[pipeline]'"
        ) from error


def _survey(ctx: typer.Context) -> "Survey | None":
    with extra_needed():
        from tinyagi.pipeline.lake import Lake  # noqa: PLC0415 - see the module's first line
        from tinyagi.pipeline.survey import survey  # noqa: PLC0415
    home = place_of(ctx).home
    return survey(Lake(home.lake), home.database)


def _told(last: dict[str, object]) -> str:
    if not last:
        return ""
    took = int(str(last["ended_at"])) - int(str(last["started_at"]))
    return f"{last['kind']}, {last['events']} events in {duration(took)}, ended {when(int(str(last['ended_at'])))}"
