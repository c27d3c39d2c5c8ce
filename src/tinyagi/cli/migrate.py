"""`tinyagi migrate`: shows what it would take over from an old home, asks for confirmation, does it and reports."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.options import HomeOption, Json, Yes

if TYPE_CHECKING:
    from tinyagi.legacy.apply import OnFileCopied
    from tinyagi.legacy.old_home import OldHome
    from tinyagi.legacy.plan import FileCopy, ImportPlan, ImportReport
    from tinyagi.settings.home import Home

_MAX_REMARKS: Final = 12
"""Remarks printed for each part; --json has all."""


def migrate(
    context: typer.Context,
    source: Annotated[
        Path | None, typer.Option("--from", help="The old home; this home or ~/.tinyclaw by default.")
    ] = None,
    home: HomeOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done and change nothing.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Take over a home of the original: settings, queue, board, schedules, paired people and files."""
    from tinyagi.cli.context import Installation, installation
    from tinyagi.cli.terminal import WrongCall, note, print_json
    from tinyagi.legacy.old_home import find_source, tinyclaw_home
    from tinyagi.settings.environment import snapshot

    if as_json and not (dry_run or yes):
        raise WrongCall("--json cannot ask for confirmation: add --yes to take over, or --dry-run to only look.")
    place, environment = (installation(context) if home is None else Installation(home)).home, snapshot()
    old = find_source(place, source, environment)
    if old is None:
        note(f"There is nothing to take over: {place.path} is not an old home, and there is no ~/.tinyclaw.")
        if as_json:
            print_json({"found": False, "home": str(place.path)})
        return
    report = _take_over(old, place, dry_run=dry_run, yes=yes, as_json=as_json)
    other = tinyclaw_home(environment)
    if source is None and other is not None and other.path not in {old.path, report.plan.home.path}:
        note(f"There is another old home: tinyagi migrate --from '{other.path}'")
    if as_json:
        print_json(as_object(report, dry_run=dry_run))


def as_object(report: "ImportReport", *, dry_run: bool) -> dict[str, object]:
    """The report as JSON fields; it names settings without their values."""
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


def _take_over(old: "OldHome", home: "Home", *, dry_run: bool, yes: bool, as_json: bool) -> "ImportReport":
    import asyncio
    import time

    from tinyagi.cli.terminal import confirm, console, note
    from tinyagi.legacy.apply import apply_plan
    from tinyagi.legacy.old_home import refuse_while_running
    from tinyagi.legacy.plan import ImportReport
    from tinyagi.legacy.planner import make_plan

    now = time.time_ns() // 1_000_000
    refuse_while_running(old.path, home.path)
    with console(err=True).status("reading the old home"):
        plan = asyncio.run(make_plan(old, home, now=now))
    if not as_json:
        _show(plan)
    if not plan.changes_anything:
        note("There is nothing left to take over.")
        return ImportReport(plan)
    if dry_run:
        note("This was a dry run: nothing was changed.")
        return ImportReport(plan)
    confirm(f"Take this over into {plan.home.path}?", yes=yes)
    with _progress(plan) as copied:
        report = asyncio.run(apply_plan(plan, now=now, copied=copied))
    note(f"Done. The previous state is in {report.backup}")
    return report


def _show(plan: "ImportPlan") -> None:
    from tinyagi.cli.terminal import note, print_table, say

    say(f"{plan.source} → {plan.home.path}")
    rows = [(part.name, part.taken or "", part.there or "", len(part.skipped) or "") for part in plan.parts]
    print_table(("what", "taken over#", "there already#", "remarks#"), rows, empty="It is empty.")
    for part in plan.parts:
        for one in part.skipped[:_MAX_REMARKS]:
            name = one.name if one.name.startswith(part.name) else f"{part.name}: {one.name}"
            note(f"{name}: {one.reason}.")
        if len(part.skipped) > _MAX_REMARKS:
            note(f"{part.name}: {len(part.skipped) - _MAX_REMARKS} more remarks, which --json lists.")
    if plan.conflicts:
        note(f"Both homes have these settings; those of {plan.home.path} are kept: {', '.join(plan.conflicts)}.")
    for text in plan.notes:
        note(text)


@contextmanager
def _progress(plan: "ImportPlan") -> "Iterator[OnFileCopied]":
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from tinyagi.cli.terminal import console

    columns = (TextColumn("copying"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console(err=True), disable=not plan.files) as progress:
        task = progress.add_task("copying", total=sum(file.size for file in plan.files))

        def copied(file: "FileCopy") -> None:
            progress.advance(task, file.size)

        yield copied
