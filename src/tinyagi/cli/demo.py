"""`tinyagi bench` and `tinyagi demo`, each in a temporary home."""

from typing import Annotated

import typer

from tinyagi.cli.options import Json
from tinyagi.cli.terminal import console, print_json, print_table


def bench(
    seconds: Annotated[float, typer.Option(min=0.2, max=600, help="Length of each of the two measurements.")] = 3,
    as_json: Json = False,
) -> None:
    """Measure durable enqueues and scripted runs per second."""
    import asyncio
    import tempfile
    from pathlib import Path

    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from tinyagi.demo.bench import run_bench

    columns = (TextColumn("{task.description:20}"), BarColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="tinyagi-bench-") as folder,
        Progress(*columns, console=console(err=True), transient=True) as bars,
    ):
        tasks = {what: bars.add_task(what, total=1.0) for what in ("durable enqueues", "scripted runs")}
        measured = asyncio.run(
            run_bench(Path(folder), seconds, lambda what, part: bars.update(tasks[what], completed=part))
        )
    if as_json:
        print_json(measured)
        return
    print_table(
        ("what", "per second#", "in all#", "meaning"),
        (
            ("enqueues", f"{measured.enqueues_per_second:,.0f}", f"{measured.enqueued:,}", "stored and synced to disk"),
            (
                "runs",
                f"{measured.runs_per_second:,.0f}",
                f"{measured.runs:,}",
                "claimed, answered, written with events",
            ),
        ),
        empty="",
    )


def demo(
    stay: Annotated[bool, typer.Option("--stay", help="Keep the company running afterwards.")] = False,
    lake: Annotated[bool, typer.Option("--lake/--no-lake", help="Run the pipeline on Spark at the end.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the totals as one JSON object.")] = False,
) -> None:
    """Run a company of five scripted agents, kill its engine with kill -9 halfway, and show that nothing was lost.

    At the end Spark loads every event into a lake, and the lake's report shows the same story.
    """
    from tinyagi.cli.demo_view import run_demo

    raise typer.Exit(run_demo(as_json=as_json, keep=stay, with_lake=lake))
