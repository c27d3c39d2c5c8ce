"""Two changes of one row at the same time, by two engines on one home: neither undoes the other.

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
    """Reads of a store, of which one waits, once it has its rows, until the test lets it go on."""

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
class Office:
    """`mine` is slow: its reads are held. `theirs` is another engine with a store of its own."""

    house: House
    mine: Engine
    theirs: Engine
    clock: FakeClock
    monkeypatch: pytest.MonkeyPatch

    def scheduler_of(self, engine: Engine) -> Scheduler:
        return Scheduler(engine.store, engine.inbox, self.clock)

    def book_of(self, engine: Engine) -> ScheduleEditor:
        return ScheduleEditor(engine.store.schedules, engine._context.effective, self.clock)

    def due_in_a_second(self, label: str = "once") -> NewSchedule:
        return NewSchedule(label, WRITER, "do it", run_at=self.clock.now + SECOND)

    @asynccontextmanager
    async def during(self, change: Awaitable[object], passing: int = 0) -> AsyncIterator[None]:
        """Begin a change of mine; the block runs once it has read, if it reads at all, and before it goes on.

        So many reads pass before the one that is held.
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
async def office(house: House, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    async with (
        house.open(start=False),
        open_engine(house.home, adapters=dict.fromkeys(ADAPTERS, house.puppet)) as other,
    ):
        yield Office(house, house.engine, other, FakeClock(), monkeypatch)


async def test_a_new_title_does_not_put_a_task_back_that_was_moved_meanwhile(office: Office) -> None:
    task = await office.mine.board.add_task(NewTask("Build it", status=TODO, assignee="coder"))

    async with office.during(office.mine.board.change_task(task.id, title="Build it well")):
        await office.theirs.board.change_task(task.id, status=IN_PROGRESS)
    await office.theirs.board.change_task(task.id, status=IN_PROGRESS)

    stored = await office.mine.store.board.task(task.id)
    assert (stored.title, stored.status) == ("Build it well", IN_PROGRESS)
    assert len(await office.house.messages()) == 1


async def test_two_who_start_a_task_at_the_same_time_send_it_once(office: Office) -> None:
    task = await office.mine.board.add_task(NewTask("Build it", status=TODO, assignee="coder"))

    async with office.during(office.mine.board.change_task(task.id, status=IN_PROGRESS)):
        await office.theirs.board.change_task(task.id, status=IN_PROGRESS)

    assert len(await office.house.messages()) == 1


async def test_a_task_that_starts_goes_to_the_assignee_that_it_has_by_then(office: Office) -> None:
    task = await office.mine.board.add_task(NewTask("Build it", status=TODO, assignee="coder"))

    async with office.during(office.mine.board.change_task(task.id, title="Build it well")):
        await office.theirs.board.change_task(task.id, assignee="writer")
    await office.mine.board.change_task(task.id, status=IN_PROGRESS)

    (message,) = await office.house.messages()
    assert message.agent == "writer"
    assert "Build it well" in message.message


async def test_a_task_that_left_progress_while_the_column_was_dragged_is_sent_again(office: Office) -> None:
    task = await office.mine.board.add_task(NewTask("Build it", status=IN_PROGRESS, assignee="coder"))

    drag = office.mine.board.reorder({IN_PROGRESS: [task.id]})
    async with office.during(drag):
        await office.theirs.board.change_task(task.id, status=REVIEW)

    stored = await office.mine.store.board.task(task.id)
    assert (stored.status, len(await office.house.messages())) in ((IN_PROGRESS, 2), (REVIEW, 1))


async def test_two_edits_of_a_project_are_both_kept(office: Office) -> None:
    project = await office.mine.board.add_project(NewProject("Site", prefix="WEB"))

    edit = office.mine.board.change_project(project.id, description="our web site")
    async with office.during(edit):
        await office.theirs.board.change_project(project.id, name="Web site", prefix="SITE")

    stored = await office.mine.store.board.project(project.id)
    assert (stored.name, stored.prefix, stored.description) == ("Web site", "SITE", "our web site")


async def test_two_edits_of_a_schedule_are_both_kept(office: Office) -> None:
    book = office.book_of(office.mine)
    added = await book.add(HOURLY)

    async with office.during(book.change(added.id, label="reports")):
        daily = await office.book_of(office.theirs).change(added.id, cron="0 9 * * *", message="a daily one")

    (stored,) = await book.all()
    assert (stored.label, stored.message, stored.cron) == ("reports", "a daily one", "0 9 * * *")
    assert stored.next_at == daily.next_at


async def test_an_edit_does_not_enable_a_single_instant_again_that_was_sent_meanwhile(office: Office) -> None:
    book = office.book_of(office.mine)
    added = await book.add(office.due_in_a_second())
    office.clock.now += SECOND
    scheduler = office.scheduler_of(office.theirs)

    async with office.during(book.change(added.id, label="renamed")):
        await scheduler.look()
    await scheduler.look()

    (stored,) = await book.all()
    assert (stored.label, stored.enabled, stored.next_at) == ("renamed", False, None)
    assert [message.message for message in await office.house.messages()] == ["do it"]


async def test_what_is_sent_is_the_text_that_the_schedule_has_by_then(office: Office) -> None:
    book = office.book_of(office.theirs)
    added = await book.add(office.due_in_a_second())
    office.clock.now += SECOND

    async with office.during(office.scheduler_of(office.mine).look()):
        await book.change(added.id, message="do it well")

    assert [message.message for message in await office.house.messages()] == ["do it well"]


async def test_a_schedule_goes_on_by_the_cron_expression_that_it_has_by_then(office: Office) -> None:
    book = office.book_of(office.theirs)
    added = await book.add(HOURLY)
    assert added.next_at is not None
    office.clock.now = added.next_at

    async with office.during(office.scheduler_of(office.mine).look()):
        office.clock.now -= SECOND
        edited = await book.change(added.id, cron="*/30 * * * *")
        assert edited.next_at == added.next_at
        office.clock.now += SECOND

    (stored,) = await book.all()
    assert stored.next_at == added.next_at + 30 * 60 * SECOND
    assert len(await office.house.messages()) == 1


async def test_the_step_past_a_due_time_that_cannot_be_sent_keeps_an_edit(office: Office) -> None:
    book = office.book_of(office.theirs)
    added = await book.add(HOURLY)
    await office.house.send("@coder first", message_id=f"schedule_{added.id}_{added.next_at}")
    office.clock.now = added.next_at or 0

    async with office.during(office.scheduler_of(office.mine).look(), passing=1):
        await book.change(added.id, label="reports", message="another text")

    (stored,) = await book.all()
    assert (stored.label, stored.message, stored.enabled) == ("reports", "another text", True)
    assert stored.next_at == office.clock.now + 3600 * SECOND
    assert len(await office.house.messages()) == 1


@pytest.mark.parametrize("passing", [0, 1])
async def test_a_schedule_that_is_disabled_meanwhile_stays_disabled(office: Office, passing: int) -> None:
    book = office.book_of(office.theirs)
    added = await book.add(HOURLY)
    await office.house.send("@coder first", message_id=f"schedule_{added.id}_{added.next_at}")
    office.clock.now = added.next_at or 0

    async with office.during(office.scheduler_of(office.mine).look(), passing):
        await book.change(added.id, enabled=False)
    await office.scheduler_of(office.mine).look()

    (stored,) = await book.all()
    assert (stored.enabled, stored.next_at) == (False, None)


@pytest.mark.parametrize("passing", [0, 1])
async def test_a_schedule_that_is_removed_meanwhile_does_not_come_back(office: Office, passing: int) -> None:
    book = office.book_of(office.theirs)
    added = await book.add(office.due_in_a_second())
    office.clock.now += SECOND

    async with office.during(office.scheduler_of(office.mine).look(), passing):
        await book.remove(added.id)

    assert await book.all() == ()
    assert len(await office.house.messages()) == passing
