"""`tinyagi migrate`: shows what would be taken over from an old home, asks, does it and reports."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.options import Json, Yes
from tinyagi.cli.run import HomeOption

if TYPE_CHECKING:
    # Types only: `tinyagi --help` is instant because nothing of this is imported before a command needs it.
    from tinyagi.settings.home import Home
    from tinyagi.takeover.applying import Copied
    from tinyagi.takeover.original import OldHome
    from tinyagi.takeover.plan import FileCopy, Plan, Report

_SHOWN: Final = 12
"""Remarks that are told one by one on each part; --json has all."""


def migrate(
    context: typer.Context,
    source: Annotated[
        Path | None, typer.Option("--from", help="The old home; this home or ~/.tinyclaw by default.")
    ] = None,
    home: HomeOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done and change nothing.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Take over a home of the original: settings, queue, board, schedules, paired people and files."""
    from tinyagi.cli.context import Place, place_of  # noqa: PLC0415 - see above
    from tinyagi.cli.edge import WrongCall  # noqa: PLC0415
    from tinyagi.cli.screen import note, print_json  # noqa: PLC0415
    from tinyagi.settings.environment import snapshot  # noqa: PLC0415
    from tinyagi.takeover.original import find_source, tinyclaw_home  # noqa: PLC0415

    if as_json and not (dry_run or yes):
        raise WrongCall("With --json nobody is asked: add --yes to take over, or --dry-run to look only.")
    place, environment = (place_of(context) if home is None else Place(home)).home, snapshot()
    old = find_source(place, source, environment)
    if old is None:
        note(f"There is nothing to take over: {place.path} is no old home, and there is no ~/.tinyclaw.")
        if as_json:
            print_json({"found": False, "home": str(place.path)})
        return
    report = _take_over(old, place, dry_run=dry_run, yes=yes, as_json=as_json)
    other = tinyclaw_home(environment)
    if source is None and other is not None and other.path not in {old.path, report.plan.home.path}:
        note(f"There is another old home: tinyagi migrate --from '{other.path}'")
    if as_json:
        print_json(as_object(report, dry_run=dry_run))


def as_object(report: "Report", *, dry_run: bool) -> dict[str, object]:
    """The report for a program; it names settings and holds none of their values."""
    plan = report.plan
    return {
        "found": True,
        "source": str(plan.source),
        "home": str(plan.home.path),
        "dryRun": dry_run,
        "applied": report.was_applied,
        "backup": None if report.backup is None else str(report.backup),
        "parts": plan.parts,
        "conflicts": plan.conflicts,
        "notes": plan.notes,
    }


def _take_over(old: "OldHome", home: "Home", *, dry_run: bool, yes: bool, as_json: bool) -> "Report":
    import asyncio  # noqa: PLC0415
    import time  # noqa: PLC0415

    from tinyagi.cli.asking import confirm  # noqa: PLC0415
    from tinyagi.cli.screen import console, note  # noqa: PLC0415
    from tinyagi.takeover.applying import apply  # noqa: PLC0415
    from tinyagi.takeover.plan import Report  # noqa: PLC0415
    from tinyagi.takeover.reading import make_plan  # noqa: PLC0415
    from tinyagi.takeover.running import refuse_while_running  # noqa: PLC0415

    now = time.time_ns() // 1_000_000
    refuse_while_running(old.path, home.path)
    with console(err=True).status("reading the old home"):
        plan = asyncio.run(make_plan(old, home, now=now))
    if not as_json:
        _show(plan)
    if not plan.changes_anything:
        note("There is nothing left to take over.")
        return Report(plan)
    if dry_run:
        note("This was a dry run: nothing was changed.")
        return Report(plan)
    confirm(f"Take this over into {plan.home.path}?", yes=yes)
    with _progress(plan) as copied:
        report = asyncio.run(apply(plan, now=now, copied=copied))
    note(f"Taken over. Everything as it was is in {report.backup}")
    return report


def _show(plan: "Plan") -> None:
    from tinyagi.cli.screen import note, print_table, say  # noqa: PLC0415

    say(f"{plan.source} → {plan.home.path}")
    rows = [(part.name, part.taken or "", part.there or "", len(part.skipped) or "") for part in plan.parts]
    print_table(("what", "taken over#", "there already#", "remarks#"), rows, empty="It is empty.")
    for part in plan.parts:
        for one in part.skipped[:_SHOWN]:
            name = one.name if one.name.startswith(part.name) else f"{part.name}: {one.name}"
            note(f"{name}: {one.reason}.")
        if len(part.skipped) > _SHOWN:
            note(f"{part.name}: {len(part.skipped) - _SHOWN} more remarks, which --json lists.")
    if plan.conflicts:
        note(f"Both homes have these settings; those of {plan.home.path} count: {', '.join(plan.conflicts)}.")
    for text in plan.notes:
        note(text)


@contextmanager
def _progress(plan: "Plan") -> "Iterator[Copied]":
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn  # noqa: PLC0415

    from tinyagi.cli.screen import console  # noqa: PLC0415

    columns = (TextColumn("copying"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console(err=True), disable=not plan.files) as progress:
        task = progress.add_task("copying", total=sum(file.size for file in plan.files))

        def copied(file: "FileCopy") -> None:
            progress.advance(task, file.size)

        yield copied
