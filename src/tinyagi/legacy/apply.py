"""Applies an import plan: first a backup, then steps that can each be repeated after a crash."""

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from tinyagi.domain.errors import Conflict, StoreFailed
from tinyagi.engine.schedules import next_due
from tinyagi.legacy.old_database import open_old
from tinyagi.legacy.old_home import OldHome, refuse_while_running
from tinyagi.legacy.plan import BEGUN, DONE, DatabaseMove, FileCopy, ImportLedger, ImportPlan, ImportReport
from tinyagi.legacy.records import key_of
from tinyagi.settings.home import PRIVATE, Home
from tinyagi.settings.json_tree import replacing
from tinyagi.settings.settings_file import SettingsFile
from tinyagi.store.backup import replace_database
from tinyagi.store.store import Store
from tinyagi.wiring import open_inbox

OnFileCopied = Callable[[FileCopy], None]
"""Called after each file that was copied."""


async def apply_plan(plan: ImportPlan, *, now: int, copied: OnFileCopied = lambda _: None) -> ImportReport:
    """Apply the plan; raise Conflict and change nothing when a daemon is running."""
    refuse_while_running(plan.source, plan.home.path)
    plan.home.prepare()
    backup = await asyncio.to_thread(back_up, plan, now)
    ledger = ImportLedger(plan.home)
    await asyncio.to_thread(_write_settings, plan)
    if plan.database is DatabaseMove.COPY and plan.queue_file is not None:
        await asyncio.to_thread(_copy_queue, plan, plan.queue_file, ledger)
    if plan.has_records or plan.database is not DatabaseMove.NONE:
        async with open_inbox(plan.home) as (store, _):
            await _write_records(plan, store, ledger, now)
    for file in plan.files:
        await asyncio.to_thread(copy_file, file, plan.home)
        copied(file)
    return ImportReport(plan, backup)


def _write_settings(plan: ImportPlan) -> None:
    after = plan.settings
    if after is not None:
        # Import agents with a forbidden folder or prompt_file too; doctor and their runs report it.
        SettingsFile(plan.home).edit(lambda stored: replacing(stored, after), checks_paths=False)


def _copy_queue(plan: ImportPlan, source: Path, ledger: ImportLedger) -> None:
    database = plan.home.database
    aside = database.with_name(f".{database.name}.new")
    with open_old(source) as found:
        found.copy_to(aside)
    # From here on, rows in the new home's database are those of the copy.
    ledger.mark_database(source, BEGUN)
    replace_database(aside, database)
    ledger.mark_database(source, DONE)


async def _write_records(plan: ImportPlan, store: Store, ledger: ImportLedger, now: int) -> None:
    await store.board.import_board(plan.projects, plan.tasks, plan.comments)
    for schedule in plan.schedules:
        # A stored schedule with this label is the same one, left by an import that crashed; the planner compared them.
        with suppress(Conflict):
            await store.schedules.add(schedule, next_at=next_due(schedule, now) if schedule.enabled else None)
    await store.pairing.import_people(plan.pairings)
    await store.audit.record("cli", "migrate", str(plan.source))
    # Last: storing a record twice is harmless, but a record that is listed and not stored would be lost.
    ledger.take(
        {
            "projects": (one.id for one in plan.projects),
            "tasks": (one.id for one in plan.tasks),
            "comments": (one.id for one in plan.comments),
            "schedules": (one.label for one in plan.schedules),
            "pairings": map(key_of, plan.pairings),
        }
    )


def back_up(plan: ImportPlan, now: int) -> Path:
    """Back up both homes and return the folder; it gets its final name only when it is complete."""
    folder = _free(plan.home.backups, now)
    aside = plan.home.backups / ".migration.new"
    try:
        if aside.exists():
            # Left by a crash of an earlier import.
            shutil.rmtree(aside)
        aside.mkdir(mode=PRIVATE)
        _copy_home(OldHome(plan.source), aside / "old")
        if not plan.in_place:
            _copy_home(OldHome(plan.home.path), aside / "home")
        return aside.rename(folder)
    except OSError as error:
        raise StoreFailed(f"The backup failed: {error}. Nothing was changed; free some space and try again.") from error


def _free(backups: Path, now: int) -> Path:
    """A free name that sorts by time."""
    names = (f"migration-{datetime.fromtimestamp(at / 1000, UTC):%Y%m%dT%H%M%S.%f}Z" for at in count(now))
    return next(path for path in (backups / name for name in names) if not path.exists())


def _copy_home(home: OldHome, folder: Path) -> None:
    folder.mkdir(mode=PRIVATE)
    for path in home.files:
        copy = folder / path.name
        copy.touch(mode=0o600)
        shutil.copyfile(path, copy)
    for path in home.databases:
        with open_old(path) as database:
            database.copy_to(folder / path.name)


def copy_file(copy: FileCopy, home: Home) -> None:
    """Copy the file completely or not at all; a file that exists meanwhile is left unchanged."""
    target = home.path / copy.place
    if os.path.lexists(target):
        return
    aside = target.with_name(".takeover.new")
    try:
        for folder in reversed([parent for parent in target.parents if home.path in parent.parents]):
            folder.mkdir(mode=PRIVATE, exist_ok=True)
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as written, copy.source.open("rb") as read:
            shutil.copyfileobj(read, written)
        shutil.copystat(copy.source, aside)
        aside.chmod(0o600)
        aside.rename(target)
    except OSError as error:
        raise StoreFailed(f"{copy.source} could not be copied: {error}. Free some space and run this again.") from error
