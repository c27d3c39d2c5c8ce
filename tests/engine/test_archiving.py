"""Archiving: the pipeline runs when it is worth it, one at a time, and its failures are nobody else's."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from tests.engine.conftest import House
from tests.support.clock import FakeClock
from tinyagi.domain.ids import AgentId
from tinyagi.domain.limits import Retention
from tinyagi.domain.messages import NewMessage
from tinyagi.engine.engine import Engine
from tinyagi.engine.pipeline_trigger import BUSY, LAKE, LONGEST_PAUSE, LakeLag, PipelineExit, PipelineTrigger
from tinyagi.settings.model import PipelineSettings
from tinyagi.store.event_log import EventLog, LogBounds
from tinyagi.system.clock import wall_clock

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
WELL = PipelineExit(0)
BROKEN = PipelineExit(3, ("Traceback", "the disk is full"))


class Clerk:
    """Stands for the pipeline: it archives all there is as soon as its door is open, and ends as it was told."""

    def __init__(self) -> None:
        self.events: EventLog | None = None
        self.ending: PipelineExit | Exception = WELL
        self.archives = True
        self.runs = 0
        self.is_at_work = asyncio.Event()
        self.was_sent_home = False
        self.door = asyncio.Event()
        self.door.set()

    async def __call__(self, settings: PipelineSettings) -> PipelineExit:
        self.runs += 1
        self.is_at_work.set()
        try:
            await self.door.wait()
        except asyncio.CancelledError:
            self.was_sent_home = True
            raise
        if isinstance(self.ending, Exception):
            raise self.ending
        if self.ending == WELL and self.archives:
            assert self.events is not None
            await self.events.acknowledge(LAKE, (await self.events.bounds()).head)
        return self.ending


@dataclass
class Office:
    """Archiving in a house whose time the test moves."""

    house: House
    archiving: PipelineTrigger
    clerk: Clerk
    clock: FakeClock
    installed: list[bool] = field(default_factory=lambda: [True])

    async def send(self, count: int) -> None:
        """So many messages, each of them one event."""
        new = [NewMessage(f"hello {number}", AgentId("coder")) for number in range(count)]
        await self.house.store.queue.enqueue_many(new)
        self.clock.now = max(self.clock.now, wall_clock())

    async def look(self) -> int:
        """Look once, see the run to its end, and return how many there have been."""
        await self.archiving.check()
        await self.archiving.wait()
        return self.clerk.runs

    async def lag(self) -> LakeLag:
        lag = await self.archiving.lag()
        assert lag is not None
        return lag


def archiving_of(engine: Engine, clerk: Clerk, clock: FakeClock, is_installed: Callable[[], bool]) -> PipelineTrigger:
    clerk.events = engine.store.events
    return PipelineTrigger(engine.store.events, engine._context.effective, clerk, is_installed, clock)


@pytest.fixture
async def office(house: House) -> AsyncIterator[Office]:
    clock, clerk, installed = FakeClock(), Clerk(), [True]
    clock.now = wall_clock()
    async with house.open(start=False):
        archiving = archiving_of(house.engine, clerk, clock, lambda: installed[0])
        yield Office(house, archiving, clerk, clock, installed)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, logger="tinyagi.pipeline")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "tinyagi.pipeline"]


async def test_a_few_new_events_are_not_worth_a_run(office: Office) -> None:
    await office.send(499)
    office.clock.advance(14 * MINUTE)

    assert await office.look() == 0
    assert not office.archiving.is_running


async def test_many_new_events_are_archived_at_once(office: Office) -> None:
    await office.send(500)

    assert await office.look() == 1
    assert (await office.lag()).events == 0


async def test_a_single_event_is_archived_when_it_is_old(office: Office) -> None:
    await office.send(1)
    office.clock.advance(15 * MINUTE)

    assert await office.look() == 1
    assert office.archiving.last_run_at == office.clock.now


async def test_an_idle_house_starts_nothing_ever(office: Office) -> None:
    await office.send(500)
    await office.look()
    for _ in range(5):
        office.clock.advance(timedelta(days=1))
        await office.look()

    assert office.clerk.runs == 1


async def test_a_log_without_an_event_starts_nothing(office: Office) -> None:
    office.clock.advance(timedelta(days=1))

    assert await office.look() == 0
    assert await office.lag() == LakeLag(through_id=0, head_id=0, events=0, seconds=0)


async def test_there_are_never_two_runs_at_once(office: Office) -> None:
    office.clerk.door.clear()
    await office.send(500)
    await office.archiving.check()
    await office.clerk.is_at_work.wait()
    await office.send(500)
    await office.archiving.check()
    was_running = office.archiving.is_running
    office.clerk.door.set()
    await office.archiving.wait()

    assert (was_running, office.archiving.is_running, office.clerk.runs) == (True, False, 1)


async def test_a_pipeline_that_is_switched_off_stays_off(office: Office) -> None:
    await office.house.engine.settings.save({"pipeline": {"enabled": False}})
    await office.send(1_000)
    office.clock.advance(timedelta(days=3))

    assert await office.look() == 0
    assert await office.archiving.lag() is None


async def test_without_its_packages_the_pipeline_is_not_wanted(office: Office) -> None:
    office.installed[0] = False
    await office.send(1_000)

    assert await office.look() == 0
    assert not office.archiving.is_wanted
    assert await office.archiving.lag() is None


async def test_a_lake_that_is_there_is_counted_although_nobody_brings_it_up_to_date(office: Office) -> None:
    await office.send(500)
    await office.look()
    office.installed[0] = False
    await office.send(700)

    assert await office.look() == 1
    lag = await office.lag()
    assert (lag.through_id, lag.head_id, lag.events) == (500, 1_200, 700)


async def test_an_edit_of_the_settings_counts_at_the_next_look(office: Office) -> None:
    await office.send(3)
    await office.look()
    await office.house.engine.settings.save({"pipeline": {"min_events": 3}})

    assert await office.look() == 1


async def test_the_lag_is_the_number_of_events_and_the_age_of_the_oldest(office: Office) -> None:
    await office.send(500)
    await office.look()
    await office.send(7)
    (first,) = await office.house.store.events.read_after(500, limit=1)
    office.clock.now = first.created_at + 90_000

    assert await office.lag() == LakeLag(through_id=500, head_id=507, events=7, seconds=90)


async def test_what_was_pruned_before_the_first_run_is_not_counted(office: Office) -> None:
    await office.send(10)
    dead = await office.house.store.queue.abandon(AgentId("coder"), reason="nobody is there")
    before = await office.lag()
    await office.house.store.queue.prune(Retention(events=timedelta(0)))
    after = await office.lag()

    assert (dead, before.events) == (10, before.head_id)
    assert await office.house.store.events.bounds() == LogBounds(0, before.head_id)
    assert after == LakeLag(0, before.head_id, 0, 0)


async def test_a_failure_is_told_with_the_last_words_and_leaves_the_log_as_it_is(
    office: Office, warnings: Callable[[], list[str]]
) -> None:
    office.clerk.ending = BROKEN
    await office.send(500)
    await office.look()

    assert warnings() == [
        "the pipeline failed, next try in 1 min: it ended with code 3\nTraceback\nthe disk is full",
    ]
    assert office.archiving.last_error == "it ended with code 3: the disk is full"
    assert (office.archiving.failures, (await office.lag()).events) == (1, 500)


async def test_the_sentence_of_the_program_goes_before_what_java_says_after_it(office: Office) -> None:
    office.clerk.ending = PipelineExit(1, ("tinyagi: There is no Java. Install one.", "at java.base/Thread.run"))
    await office.send(500)
    await office.look()

    assert office.archiving.last_error == "it ended with code 1: There is no Java. Install one."


async def test_pauses_between_failures_grow_up_to_half_an_hour(office: Office) -> None:
    office.clerk.ending = PipelineExit(-9)
    await office.send(500)
    pauses = []
    for run in range(8):
        began = office.clock.now
        while await office.look() == run:
            office.clock.advance(MINUTE)
        pauses.append(timedelta(milliseconds=office.clock.now - began) // MINUTE)

    assert pauses == [0, 1, 2, 4, 8, 16, 30, 30]
    assert office.archiving.last_error == "it ended by signal 9"


async def test_a_success_forgets_the_failures_before_it(office: Office) -> None:
    office.clerk.ending = BROKEN
    await office.send(500)
    await office.look()
    office.clock.advance(MINUTE)
    await office.look()
    office.clock.advance(2 * MINUTE)
    office.clerk.ending = WELL
    await office.look()
    healed = office.archiving.last_error
    office.clerk.ending = BROKEN
    await office.send(500)
    await office.look()
    office.clock.advance(MINUTE)

    assert healed is None
    assert await office.look() == 5
    assert office.archiving.failures == 4


async def test_a_clock_that_is_set_back_makes_no_pause_longer(office: Office) -> None:
    office.clerk.ending = BROKEN
    await office.send(500)
    await office.look()
    office.clock.advance(-LONGEST_PAUSE)

    assert await office.look() == 2


async def test_a_lake_that_another_process_writes_is_no_failure_and_is_left_to_it_for_a_minute(
    office: Office, warnings: Callable[[], list[str]]
) -> None:
    office.clerk.ending = PipelineExit(BUSY, ("The lake is being written",))
    await office.send(500)
    await office.look()
    at_once = await office.look()
    office.clock.advance(MINUTE)
    later = await office.look()

    assert (at_once, later) == (1, 2)
    assert (office.archiving.failures, office.archiving.last_error, warnings()) == (0, None, [])


async def test_a_pipeline_that_does_nothing_and_says_it_is_well_is_not_started_for_ever(office: Office) -> None:
    office.clerk.archives = False
    await office.send(500)
    await office.look()

    assert await office.look() == 1
    assert office.archiving.last_error == "it ended without an error but archived nothing"


async def test_a_process_that_cannot_be_started_is_a_failure_like_any_other(office: Office) -> None:
    office.clerk.ending = OSError("no more processes")
    await office.send(500)
    await office.look()

    assert (office.archiving.failures, office.archiving.last_error) == (1, "no more processes")
    assert await office.look() == 1


async def test_a_fault_in_starting_the_pipeline_is_a_failure_like_any_other(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    office.clerk.ending = ZeroDivisionError("a fault")
    await office.send(500)
    await office.look()

    assert (office.archiving.failures, office.archiving.last_error) == (1, "ZeroDivisionError: a fault")
    assert any(record.exc_info for record in caplog.records)
    assert await office.look() == 1


async def test_a_lake_that_is_left_behind_is_warned_of_once_a_day(
    office: Office, warnings: Callable[[], list[str]]
) -> None:
    await office.send(500)
    await office.look()
    await office.send(5)
    office.installed[0] = False
    await office.look()
    told = []
    for _ in range(4 * 24):
        office.clock.advance(HOUR)
        await office.look()
        told.append(len(warnings()))

    assert [told[hour - 1] for hour in (23, 24, 47, 48, 72, 95, 96)] == [0, 1, 1, 2, 3, 3, 4]
    assert "5 events and 24 hours behind" in warnings()[0]
    assert "`tinyagi pipeline run`" in warnings()[0]
    assert "`tinyagi pipeline detach`" in warnings()[0]


async def test_a_daemon_that_was_off_for_a_weekend_has_time_to_catch_up_before_it_warns(
    office: Office, warnings: Callable[[], list[str]]
) -> None:
    await office.send(500)
    office.clock.advance(timedelta(days=3))
    office.clerk.door.clear()
    await office.archiving.check()
    office.clock.advance(29 * MINUTE)
    await office.archiving.check()
    in_time = warnings()
    office.clock.advance(MINUTE)
    await office.archiving.check()
    office.clerk.door.set()
    await office.archiving.wait()

    assert in_time == []
    assert len(warnings()) == 1, "a run that hangs is told, too"
