"""Shows the demo: a progress bar while it runs, then a table, or JSON for scripts."""

import asyncio
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from tinyagi.demo.report import Report
from tinyagi.demo.run import play


def run_demo(count: int, *, as_json: bool) -> int:
    """Play the demo in a folder of its own and return the exit code: 0 when the queue kept its promises."""
    console = Console(stderr=as_json)
    with tempfile.TemporaryDirectory(prefix="tinyagi-demo-") as folder:
        report = _play(Path(folder), count, console)
    if as_json:
        figures = {**asdict(report), "clean": report.is_clean, "per_second": round(report.per_second, 1)}
        Console().print_json(json.dumps(figures))
    else:
        console.print(_table(report))
        console.print(
            "[green]Nothing lost, nothing doubled, every thread in order.[/]"
            if report.is_clean
            else "[red]The queue broke a promise: please report this with the table above.[/]"
        )
    return 0 if report.is_clean else 1


def _play(home: Path, count: int, console: Console) -> Report:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("filling the queue", total=count)

        def show(stage: str, done: int, total: int) -> None:
            bar.update(task, description=stage, completed=done, total=total)

        return asyncio.run(play(home, count, show))


def _table(report: Report) -> Table:
    table = Table(title="TinyAGI demo: three lanes, one kill -9", title_justify="left", show_header=False)
    table.add_column("what", style="bold")
    table.add_column("count", justify="right")
    table.add_column("meaning", style="dim")
    rows = (
        ("enqueued", report.enqueued, "stored durably before the caller was answered"),
        ("runs", report.runs, "claims that were started"),
        ("completed", report.completed, "answered, in one transaction each"),
        ("retried", report.retried, "failed runs that got another attempt after a pause"),
        ("recovered", report.recovered, "in the hands of the killed worker, taken back by the next"),
        ("dead", report.dead, "out of attempts, kept with their error, the sender told"),
        ("lost", report.lost, "must be 0"),
        ("doubled", report.doubled, "answers given twice, must be 0"),
        ("order kept", f"{report.threads_in_order} of {report.threads}", "threads whose messages ran in order"),
        ("messages/s", f"{report.per_second:,.0f}", f"{report.seconds:.1f} s with 3 ms of pretended work per run"),
    )
    for what, number, meaning in rows:
        table.add_row(what, str(number), meaning)
    return table
