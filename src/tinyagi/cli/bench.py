"""`tinyagi bench`: what the queue does a second on this machine, in a home of its own that is removed afterwards."""

from typing import Annotated

import typer

from tinyagi.cli.options import Json
from tinyagi.cli.screen import console, print_json, print_table


def bench(
    seconds: Annotated[float, typer.Option(min=0.2, max=600, help="Of each of the two measurements.")] = 3,
    as_json: Json = False,
) -> None:
    """Measure durable enqueues and scripted runs per second."""
    import asyncio  # noqa: PLC0415 - see cli.context
    import tempfile  # noqa: PLC0415
    from pathlib import Path  # noqa: PLC0415

    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    from tinyagi.demo.measure import measure  # noqa: PLC0415

    columns = (TextColumn("{task.description:20}"), BarColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="tinyagi-bench-") as folder,
        Progress(*columns, console=console(err=True), transient=True) as bars,
    ):
        tasks = {what: bars.add_task(what, total=1.0) for what in ("durable enqueues", "scripted runs")}
        measured = asyncio.run(
            measure(Path(folder), seconds, lambda what, part: bars.update(tasks[what], completed=part))
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
