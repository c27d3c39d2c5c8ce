"""Carries a plan out: first the backup, then each step so that after a crash it can be taken again."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tinyagi.domain.errors import Conflict
from tinyagi.engine.timetable import next_due
from tinyagi.settings.document import Document
from tinyagi.store.base import Store
from tinyagi.takeover.agenda import key_of
from tinyagi.takeover.backing import back_up
from tinyagi.takeover.databases import opened, put_in_place
from tinyagi.takeover.ledger import BEGUN, DONE, Ledger
from tinyagi.takeover.merging import patch
from tinyagi.takeover.plan import DatabaseMove, FileCopy, Plan, Report
from tinyagi.takeover.running import refuse_while_running
from tinyagi.takeover.trees import copy_file
from tinyagi.wiring import open_inbox

Copied = Callable[[FileCopy], None]
"""Told of every file that was copied."""


async def apply(plan: Plan, *, now: int, copied: Copied = lambda _: None) -> Report:
    """Do what the plan says; raise Conflict when a daemon is running, and change nothing then."""
    refuse_while_running(plan.source, plan.home.path)
    plan.home.prepare()
    backup = await asyncio.to_thread(back_up, plan, now)
    ledger = Ledger(plan.home)
    await asyncio.to_thread(_write_settings, plan)
    if plan.database is DatabaseMove.COPY and plan.queue_file is not None:
        await asyncio.to_thread(_copy_queue, plan, plan.queue_file, ledger)
    if plan.has_records or plan.database is not DatabaseMove.NONE:
        async with open_inbox(plan.home) as (store, _):
            await _write_records(plan, store, ledger, now)
    for file in plan.files:
        await asyncio.to_thread(copy_file, file, plan.home)
        copied(file)
    return Report(plan, backup)


def _write_settings(plan: Plan) -> None:
    after = plan.settings
    if after is not None:
        Document(plan.home).edit(lambda stored: patch(stored, after))


def _copy_queue(plan: Plan, source: Path, ledger: Ledger) -> None:
    database = plan.home.database
    aside = database.with_name(f".{database.name}.new")
    with opened(source) as found:
        found.copy_to(aside)
    # From here on rows in the new home's database are those of the copy.
    ledger.mark_database(source, BEGUN)
    put_in_place(aside, database)
    ledger.mark_database(source, DONE)


async def _write_records(plan: Plan, store: Store, ledger: Ledger, now: int) -> None:
    await store.board.take_over(plan.projects, plan.tasks, plan.comments)
    for schedule in plan.schedules:
        # One of its label that is there says the same, as after a takeover that died: the plan has looked.
        with suppress(Conflict):
            await store.schedules.add(schedule, next_at=next_due(schedule, now) if schedule.enabled else None)
    await store.pairing.take_over(plan.pairings)
    await store.audit.record("cli", "migrate", str(plan.source))
    # Last: to store once more does no harm, and what is noted without being stored would be lost.
    ledger.take(
        {
            "projects": (one.id for one in plan.projects),
            "tasks": (one.id for one in plan.tasks),
            "comments": (one.id for one in plan.comments),
            "schedules": (one.label for one in plan.schedules),
            "pairings": map(key_of, plan.pairings),
        }
    )
