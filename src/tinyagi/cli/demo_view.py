"""Shows the demo: its steps as they happen, then the conversations as trees and the totals, or JSON."""

import asyncio
import contextlib
import json
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tinyagi.api.conversations import trace_of
from tinyagi.cli.pipeline import ProgressBars
from tinyagi.cli.waterfall import waterfall
from tinyagi.demo.run import Archived, archive, home_in, keep_running, run_scenario
from tinyagi.demo.story import DemoTotals, Step, Story
from tinyagi.settings.home import Home
from tinyagi.wiring import pipeline_is_installed


def run_demo(*, as_json: bool, keep: bool, with_lake: bool) -> int:
    """Run the demo in a new folder; return exit code 0 when no message was lost, doubled or out of order."""
    console = Console(stderr=as_json, highlight=False)
    address = None
    with _folder(keep) as folder:
        story = _run(folder, console)
        archived = _archive(home_in(folder), console) if with_lake else None
        if keep:
            address = keep_running(home_in(folder))
    totals = story.totals
    if as_json:
        result = {**asdict(totals), "clean": totals.is_clean}
        if archived is not None:
            result |= {"lake": asdict(archived.summary), "report": asdict(archived.report)}
        if address is not None:
            result |= {"address": address, "home": str(home_in(folder).path)}
        Console().print_json(json.dumps(result))
    else:
        console.print()
        for conversation in story.conversations:
            console.print(_tree(conversation, story.began_at), "")
        console.print(_table(totals))
        console.print(
            "[green]Nothing lost, nothing doubled, every thread in order.[/]"
            if totals.is_clean
            else "[red]The queue broke a guarantee: please report this with the table above.[/]"
        )
        if archived is not None:
            _show_lake(archived, console)
        if address is not None:
            console.print(_next_steps(address, home_in(folder)), soft_wrap=True)
    return 0 if totals.is_clean else 1


@contextlib.contextmanager
def _folder(keep: bool) -> Iterator[Path]:
    """A folder for the company, deleted after the demo unless `keep` is set."""
    if keep:
        yield Path(tempfile.mkdtemp(prefix="tinyagi-demo-"))
    else:
        with tempfile.TemporaryDirectory(prefix="tinyagi-demo-") as folder:
            yield Path(folder)


def _next_steps(address: str, home: Home) -> str:
    command = escape(f"{shlex.quote(sys.argv[0])} --home {shlex.quote(str(home.path))}")
    return (
        "\nThe company keeps running.\n"
        f"Look:   [cyan]{command} trace[/]\n"
        f"Write:  [cyan]{command} send --wait '@dev Ship the login page.'[/]\n"
        f"Join from Telegram: [cyan]{command} channel setup telegram --token TOKEN[/]\n"
        f"Stop:   [cyan]{command} stop[/]\n"
        f"API:    {address}"
    )


def _run(folder: Path, console: Console) -> Story:
    with console.status("starting the company") as status:
        last = ""

        def show(step: str) -> None:
            nonlocal last
            status.update(escape(step))
            # Counts are updated in place; other steps stay on the screen.
            if step != last and "waiting" not in step:
                console.print(f"[dim]·[/] {escape(step)}")
            last = step

        return asyncio.run(run_scenario(folder, show))


def _archive(home: Home, console: Console) -> Archived | None:
    if not pipeline_is_installed():
        console.print("[dim]·[/] without the lake: the extra `pipeline` is not installed")
        return None
    console.print("[dim]·[/] Spark loads every event into a lake")
    with ProgressBars() as bars:
        return asyncio.run(archive(home, bars))


def _show_lake(archived: Archived, console: Console) -> None:
    """Show the lake's report and the slowest conversation as a waterfall."""
    console.print(f"\n[bold]The same company, from its lake[/] · {archived.summary.events} events, read without a JVM")
    from tinyagi.pipeline.report.terminal import drawn

    for part in drawn(archived.report):
        console.print(part)
    if archived.longest:
        console.print("\n[bold]Its slowest conversation[/]")
        console.print(waterfall(trace_of(archived.longest), console.width))


def _tree(parts: tuple[Step, ...], began_at: int) -> Tree:
    """A conversation: the person's message, or one part per addressed agent, and all messages that followed."""
    if len(parts) == 1:
        tree = Tree(_label(parts[0], began_at), guide_style="dim")
        _add_steps(tree, parts[0], began_at)
        return tree
    tree = Tree(_line(f"{parts[0].who} → {', '.join(f'@{part.agent}' for part in parts)}", "bold"), guide_style="dim")
    for part in parts:
        _add_steps(tree.add(_label(part, began_at)), part, began_at)
    return tree


def _add_steps(branch: Tree, step: Step, began_at: int) -> None:
    for trouble in step.troubles:
        branch.add(_line(f"✗ {trouble}", "yellow"))
    if step.is_dead:
        branch.add(_line("dead: out of attempts, kept with its error, the sender got a notice", "red"))
    readers = [one for one in step.steps if one.is_room_post]
    if readers:
        names = ", ".join(f"@{one.agent}" for one in readers)
        branch.add(_line(f"# chat room, to {names}: {_last_line(readers[0].text)}", "cyan"))
    for child in step.steps:
        if not child.is_room_post:
            _add_steps(branch.add(_label(child, began_at)), child, began_at)


def _label(step: Step, began_at: int) -> Text:
    # Cut lines at the terminal's edge: wrapped lines would hide the shape of the tree.
    label = Text(no_wrap=True, overflow="ellipsis")
    label.append(f"{(step.received_at - began_at) / 1000:5.2f} s  ", style="dim")
    label.append(f"{step.who} → @{step.agent}", style="bold")
    label.append(f"  {_last_line(step.text)}")
    if step.answer is not None and step.started_at is not None and step.ended_at is not None:
        took = f"ran {step.ended_at - step.started_at:,} ms"
        label.append(f"\n         ✓ {took}", style="green")
        label.append(f", attempt {step.runs}" if step.runs > 1 else "", style="yellow")
        label.append(f"  {' '.join(step.answer.split())}")
    return label


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else ""


def _line(text: str, style: str) -> Text:
    return Text(" ".join(text.split()), style=style, no_wrap=True, overflow="ellipsis")


def _table(totals: DemoTotals) -> Table:
    table = Table(title="A company of five, one kill -9", title_justify="left", show_header=False)
    table.add_column("what", style="bold")
    table.add_column("count", justify="right")
    table.add_column("meaning", style="dim")
    rows = (
        ("messages", totals.messages, f"in {totals.conversations} conversations, {totals.handoffs} hand-offs"),
        ("runs", totals.runs, "claims that were started"),
        ("completed", totals.completed, "answered, in one transaction each"),
        ("retried", totals.retried, "failed runs that got another attempt after a pause"),
        ("recovered", totals.recovered, "claimed by the killed engine, recovered by the next"),
        ("dead", totals.dead, "out of attempts, kept with their error, the sender got a notice"),
        ("room lines", totals.room_lines, "posted in the team's chat room"),
        ("responses", totals.responses, "answers and notices for people, waiting for their channels"),
        ("tokens", f"{totals.tokens:,}", "as the scripts state them: this demo needs no key"),
        ("lost", totals.lost, "must be 0"),
        ("doubled", totals.doubled, "answers or hand-offs given twice, must be 0"),
        ("order kept", f"{totals.threads_in_order} of {totals.threads}", "threads whose messages ran in order"),
        ("seconds", f"{totals.seconds:.1f}", "from the first engine's start to the last answer"),
    )
    for what, number, meaning in rows:
        table.add_row(what, str(number), meaning)
    return table
