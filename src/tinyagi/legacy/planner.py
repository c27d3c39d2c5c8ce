"""Plans the import of an old home: its settings, queue, records and files. Changes nothing."""

import asyncio
import filecmp
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tinyagi.domain.errors import StoreError
from tinyagi.legacy.old_database import QUEUE_TABLES, open_old
from tinyagi.legacy.old_home import TREES, OldHome
from tinyagi.legacy.plan import BEGUN, DONE, DatabaseMove, FileCopy, ImportLedger, ImportPlan, PlanPart, Skipped
from tinyagi.legacy.records import HomeRecords, plan_board, plan_pairing, plan_schedules
from tinyagi.legacy.settings_merge import plan_settings
from tinyagi.settings.home import Home
from tinyagi.wiring import open_inbox

_NAMES: Final = {
    "messages": "messages",
    "responses": "responses",
    "chat_messages": "room lines",
    "agent_messages": "history",
}


async def make_plan(old: OldHome, home: Home, *, now: int) -> ImportPlan:
    """Plan the whole import; raise a TinyAGIError when a file cannot be read or a database cannot be migrated."""
    home = replace(home, path=home.path.resolve())
    settings = plan_settings(old, home)
    ledger = ImportLedger(home)
    state = await read_copy(home.database)
    queue = plan_queue(old, home, state, ledger)
    if queue.move is DatabaseMove.COPY and queue.file is not None:
        await read_copy(queue.file)
    board = plan_board(old, settings.settings, state, ledger, now)
    schedules, schedules_part = plan_schedules(old, settings.settings, state, ledger, now)
    pairings, pairings_part = plan_pairing(old, state, ledger, now)
    in_place = old.path == home.path
    files, files_part = ((), PlanPart("files")) if in_place else plan_files(old, home)
    parts = (*settings.parts, *queue.parts, *board.parts, schedules_part, pairings_part, files_part, _left(old))
    note = f"{old.path} is left unchanged. Messages may refer to files in it, so keep it for a while."
    return ImportPlan(
        source=old.path,
        home=home,
        parts=tuple(part for part in parts if not part.is_empty),
        conflicts=settings.conflicts,
        notes=() if in_place else (note,),
        settings=settings.raw,
        database=queue.move,
        queue_file=queue.file,
        projects=board.projects,
        tasks=board.tasks,
        comments=board.comments,
        schedules=schedules,
        pairings=pairings,
        files=files,
    )


def _left(old: OldHome) -> PlanPart:
    """Messages in the files of the first version, which this program does not read."""
    left = []
    waiting = sorted((old.path / "queue").glob("incoming/*.json"))
    if waiting:
        reason = f"{len(waiting)} messages wait in files of the first version: send them again"
        left.append(Skipped("queue/incoming", reason))
    return PlanPart("other", skipped=tuple(left))


async def read_copy(database: Path) -> HomeRecords:
    """Open a copy of the database with the store; raise StoreError when the store cannot migrate it."""
    with tempfile.TemporaryDirectory(prefix="tinyagi-takeover-") as folder:
        home = Home(Path(folder))
        if not await asyncio.to_thread(_copy, database, home.database):
            return HomeRecords()
        try:
            return await _records_of(home)
        except StoreError as error:
            # Name the original in the message, not its temporary copy.
            raise type(error)(str(error).replace(str(home.database), str(database))) from error


async def _records_of(home: Home) -> HomeRecords:
    async with open_inbox(home) as (store, _):
        return HomeRecords(
            projects=await store.board.projects(),
            tasks=await store.board.tasks(),
            schedules=await store.schedules.all(),
            approved=await store.pairing.approved(),
        )


def _copy(database: Path, copy: Path) -> bool:
    """False when there is no database to copy."""
    if not database.is_file():
        return False
    with open_old(database) as found:
        found.copy_to(copy)
    return True


@dataclass(frozen=True, slots=True)
class QueuePlan:
    move: DatabaseMove
    file: Path | None
    parts: tuple[PlanPart, ...]


def plan_queue(old: OldHome, home: Home, state: HomeRecords, ledger: ImportLedger) -> QueuePlan:
    if not old.queues:
        return QueuePlan(DatabaseMove.NONE, None, ())
    file, others = old.queues[0], old.queues[1:]
    is_home = file.resolve() == home.database.resolve()
    plan = _in_place(file) if is_home else _elsewhere(file, home, state, ledger)
    left = tuple(
        Skipped(str(other), f"{file.name} is used as the queue; import this one from a folder of its own")
        for other in others
        if other.resolve() != home.database.resolve() and sum(_counts(other).values()) > 0
    )
    return QueuePlan(plan.move, plan.file, (*plan.parts, PlanPart("databases", skipped=left)))


def _in_place(file: Path) -> QueuePlan:
    with open_old(file) as found:
        counts, is_original = found.counts(), found.is_original
    if is_original:
        return QueuePlan(DatabaseMove.IN_PLACE, file, _queue_parts(taken=counts))
    return QueuePlan(DatabaseMove.NONE, None, _queue_parts(there=counts))


def _elsewhere(file: Path, home: Home, state: HomeRecords, ledger: ImportLedger) -> QueuePlan:
    counts = _counts(file)
    mark = ledger.database(file)
    stored = sum(_counts(home.database).values()) if home.database.is_file() else 0
    # No process can write between the mark and the replacement, so any rows are those of the copy.
    if mark == DONE or (mark == BEGUN and stored):
        return QueuePlan(DatabaseMove.NONE, None, _queue_parts(there=counts))
    if stored or not state.is_empty:
        reason = (
            f"{home.database} is in use, and two queues cannot be merged. "
            f"To use the old one instead, move {home.database} away and run this again"
        )
        left = Skipped(f"{file} ({sum(counts.values())} rows)", reason)
        return QueuePlan(DatabaseMove.NONE, None, (PlanPart("queue", skipped=(left,)),))
    return QueuePlan(DatabaseMove.COPY, file, _queue_parts(taken=counts))


def _counts(file: Path) -> dict[str, int]:
    with open_old(file) as found:
        return found.counts()


def _queue_parts(*, taken: dict[str, int] | None = None, there: dict[str, int] | None = None) -> tuple[PlanPart, ...]:
    none = dict.fromkeys(QUEUE_TABLES, 0)
    return tuple(
        PlanPart(_NAMES[table], taken=(taken or none)[table], there=(there or none)[table]) for table in QUEUE_TABLES
    )


def plan_files(old: OldHome, home: Home) -> tuple[tuple[FileCopy, ...], PlanPart]:
    """Files are copied, never moved, and never replace an existing file."""
    copies: list[FileCopy] = []
    left: list[Skipped] = []
    there = 0
    for tree in TREES:
        for path in _walk(old.path / tree):
            place = path.relative_to(old.path)
            reason = _reason_to_skip(path, old.path)
            if reason:
                left.append(Skipped(str(place), reason))
            elif not os.path.lexists(home.path / place):
                copies.append(FileCopy(path, place, path.stat().st_size))
            elif filecmp.cmp(path, home.path / place, shallow=False):
                there += 1
            else:
                left.append(Skipped(str(place), "the new home has another file of this name"))
    return tuple(copies), PlanPart("files", len(copies), there, tuple(left))


def _walk(folder: Path) -> Iterator[Path]:
    """Everything below the folder except folders, sorted; links to folders are not followed."""
    if not folder.is_dir() or folder.is_symlink():
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        else:
            yield path


def _reason_to_skip(path: Path, source: Path) -> str:
    if path.is_symlink():
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return "it is a broken link"
        if not target.is_relative_to(source.resolve()):
            return "it is a link that leads out of the old home"
        if not target.is_file():
            return "it is a link to a folder"
    return "" if stat.S_ISREG(path.stat().st_mode) else "it is not a regular file"
