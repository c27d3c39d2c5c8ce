"""Concurrent changes of one row by two engines on one home: neither undoes the other.

One of the two may read the row first. It then waits, with what it has read, until the other one is stored.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.engine.conftest import ADAPTERS, House
from tests.support.clock import FakeClock
from tinyagi.domain.board import NewProject, NewTask, TaskStatus
from tinyagi.domain.ids import AgentId
from tinyagi.domain.schedules import NewSchedule
from tinyagi.engine.engine import Engine
from tinyagi.engine.schedules import ScheduleEditor, Scheduler
from tinyagi.wiring import open_engine

TODO, IN_PROGRESS, REVIEW = TaskStatus.TODO, TaskStatus.IN_PROGRESS, TaskStatus.REVIEW
WRITER = AgentId("writer")
SECOND = 1000
HOURLY = NewSchedule("hourly", WRITER, "write the report", cron="0 * * * *", timezone="UTC")


class HeldRead:
    """Reads of a store; one of them is held, after it has its rows, until the test releases it."""

    def __init__(self, passing: int) -> None:
        self._passing = passing
        self.has_read = asyncio.Event()
        self.goes_on = asyncio.Event()

    def holding(self, read: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def held(*arguments: Any) -> Any:
            rows = await read(*arguments)
            self._passing -= 1
            if self._passing < 0:
                self.has_read.set()
                await self.goes_on.wait()
            return rows

        return held


@dataclass
class TwoEngines:
    """`mine` is slow: its reads are held. `theirs` is another engine with a second store."""

    house: House
    mine: Engine
    theirs: Engine
    clock: FakeClock
    monkeypatch: pytest.MonkeyPatch

    def scheduler_of(self, engine: Engine) -> Scheduler:
        return Scheduler(engine.store, engine.inbox, self.clock)

    def editor_of(self, engine: Engine) -> ScheduleEditor:
        return ScheduleEditor(engine.store.schedules, engine._context.effective, self.clock)

    def due_in_a_second(self, label: str = "once") -> NewSchedule:
        return NewSchedule(label, WRITER, "do it", run_at=self.clock.now + SECOND)

    @asynccontextmanager
    async def during(self, change: Awaitable[object], passing: int = 0) -> AsyncIterator[None]:
        """Begin a change of mine; the block runs once it has read, if it reads at all, and before it goes on.

        `passing` reads are not held before the one that is.
        """
        held = HeldRead(passing)
        with self.monkeypatch.context() as patched:
            for readers in self.mine.store._readers:
                patched.setattr(readers, "run", held.holding(readers.run))
            changing = asyncio.ensure_future(change)
            reading = asyncio.create_task(held.has_read.wait())
            await asyncio.wait((changing, reading), return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            yield
            held.goes_on.set()
            await changing


@pytest.fixture
async def engines(house: House, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TwoEngines]:
    async with (
        house.open(start=False),
        open_engine(house.home, adapters=dict.fromkeys(ADAPTERS, house.puppet)) as other,
    ):
        yield TwoEngines(house, house.engine, other, FakeClock(), monkeypatch)


async def test_a_new_title_does_not_undo_a_concurrent_move(engines: TwoEngines) -> None:
    task = await engines.mine.board.add_task(NewTask("Build it", status=TODO, assignee="coder"))

    async with engines.during(engines.mine.board.change_task(task.id, title="Build it well")):
        await engines.theirs.board.change_task(task.id, status=IN_PROGRESS)
    await engines.theirs.board.change_task(task.id, status=IN_PROGRESS)

    stored = await engines.mine.store.board.task(task.id)
    assert (stored.title, stored.status) == ("Build it well", IN_PROGRESS)
    assert len(await engines.house.messages()) == 1


async def test_concurrent_starts_of_a_task_send_it_once(engines: TwoEngines) -> None:
    task = await engines.mine.board.add_task(NewTask("Build it", status=TODO, assignee="coder"))

    async with engines.during(engines.mine.board.change_task(task.id, status=IN_PROGRESS)):
        await engines.theirs.board.change_task(task.id, status=IN_PROGRESS)

    assert len(await engines.house.messages()) == 1


async def test_a_started_task_goes_to_its_current_assignee(engines: TwoEngines) -> None:
    task = await engines.mine.board.add_task(NewTask("Build it", status=TODO, assignee="coder"))

    async with engines.during(engines.mine.board.change_task(task.id, title="Build it well")):
        await engines.theirs.board.change_task(task.id, assignee="writer")
    await engines.mine.board.change_task(task.id, status=IN_PROGRESS)

    (message,) = await engines.house.messages()
    assert message.agent == "writer"
    assert "Build it well" in message.message


async def test_a_task_moved_out_during_a_reorder_is_sent_again(engines: TwoEngines) -> None:
    task = await engines.mine.board.add_task(NewTask("Build it", status=IN_PROGRESS, assignee="coder"))

    drag = engines.mine.board.reorder({IN_PROGRESS: [task.id]})
    async with engines.during(drag):
        await engines.theirs.board.change_task(task.id, status=REVIEW)

    stored = await engines.mine.store.board.task(task.id)
    assert (stored.status, len(await engines.house.messages())) in ((IN_PROGRESS, 2), (REVIEW, 1))


async def test_two_edits_of_a_project_are_both_kept(engines: TwoEngines) -> None:
    project = await engines.mine.board.add_project(NewProject("Site", prefix="WEB"))

    edit = engines.mine.board.change_project(project.id, description="our web site")
    async with engines.during(edit):
        await engines.theirs.board.change_project(project.id, name="Web site", prefix="SITE")

    stored = await engines.mine.store.board.project(project.id)
    assert (stored.name, stored.prefix, stored.description) == ("Web site", "SITE", "our web site")


async def test_two_edits_of_a_schedule_are_both_kept(engines: TwoEngines) -> None:
    editor = engines.editor_of(engines.mine)
    added = await editor.add(HOURLY)

    async with engines.during(editor.change(added.id, label="reports")):
        daily = await engines.editor_of(engines.theirs).change(added.id, cron="0 9 * * *", message="a daily one")

    (stored,) = await editor.all()
    assert (stored.label, stored.message, stored.cron) == ("reports", "a daily one", "0 9 * * *")
    assert stored.next_at == daily.next_at


async def test_an_edit_does_not_reenable_a_single_time_sent_meanwhile(engines: TwoEngines) -> None:
    editor = engines.editor_of(engines.mine)
    added = await editor.add(engines.due_in_a_second())
    engines.clock.now += SECOND
    scheduler = engines.scheduler_of(engines.theirs)

    async with engines.during(editor.change(added.id, label="renamed")):
        await scheduler.send_due()
    await scheduler.send_due()

    (stored,) = await editor.all()
    assert (stored.label, stored.enabled, stored.next_at) == ("renamed", False, None)
    assert [message.message for message in await engines.house.messages()] == ["do it"]


async def test_the_current_text_of_a_schedule_is_sent(engines: TwoEngines) -> None:
    editor = engines.editor_of(engines.theirs)
    added = await editor.add(engines.due_in_a_second())
    engines.clock.now += SECOND

    async with engines.during(engines.scheduler_of(engines.mine).send_due()):
        await editor.change(added.id, message="do it well")

    assert [message.message for message in await engines.house.messages()] == ["do it well"]


async def test_the_next_time_follows_the_current_cron_expression(engines: TwoEngines) -> None:
    editor = engines.editor_of(engines.theirs)
    added = await editor.add(HOURLY)
    assert added.next_at is not None
    engines.clock.now = added.next_at

    async with engines.during(engines.scheduler_of(engines.mine).send_due()):
        engines.clock.now -= SECOND
        edited = await editor.change(added.id, cron="*/30 * * * *")
        assert edited.next_at == added.next_at
        engines.clock.now += SECOND

    (stored,) = await editor.all()
    assert stored.next_at == added.next_at + 30 * 60 * SECOND
    assert len(await engines.house.messages()) == 1


async def test_skipping_a_due_time_keeps_a_concurrent_edit(engines: TwoEngines) -> None:
    editor = engines.editor_of(engines.theirs)
    added = await editor.add(HOURLY)
    await engines.house.send("@coder first", message_id=f"schedule_{added.id}_{added.next_at}")
    engines.clock.now = added.next_at or 0

    async with engines.during(engines.scheduler_of(engines.mine).send_due(), passing=1):
        await editor.change(added.id, label="reports", message="another text")

    (stored,) = await editor.all()
    assert (stored.label, stored.message, stored.enabled) == ("reports", "another text", True)
    assert stored.next_at == engines.clock.now + 3600 * SECOND
    assert len(await engines.house.messages()) == 1


@pytest.mark.parametrize("passing", [0, 1])
async def test_a_schedule_disabled_meanwhile_stays_disabled(engines: TwoEngines, passing: int) -> None:
    editor = engines.editor_of(engines.theirs)
    added = await editor.add(HOURLY)
    await engines.house.send("@coder first", message_id=f"schedule_{added.id}_{added.next_at}")
    engines.clock.now = added.next_at or 0

    async with engines.during(engines.scheduler_of(engines.mine).send_due(), passing):
        await editor.change(added.id, enabled=False)
    await engines.scheduler_of(engines.mine).send_due()

    (stored,) = await editor.all()
    assert (stored.enabled, stored.next_at) == (False, None)


@pytest.mark.parametrize("passing", [0, 1])
async def test_a_schedule_removed_meanwhile_does_not_come_back(engines: TwoEngines, passing: int) -> None:
    editor = engines.editor_of(engines.theirs)
    added = await editor.add(engines.due_in_a_second())
    engines.clock.now += SECOND

    async with engines.during(engines.scheduler_of(engines.mine).send_due(), passing):
        await editor.remove(added.id)

    assert await editor.all() == ()
    assert len(await engines.house.messages()) == passing
