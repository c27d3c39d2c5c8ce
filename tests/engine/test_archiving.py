"""Archiving: when the pipeline runs, one run at a time, and how failures are handled."""

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
SUCCESS = PipelineExit(0)
BROKEN = PipelineExit(3, ("Traceback", "the disk is full"))


class FakePipeline:
    """A fake pipeline: it archives all events once it is released, and ends with the given exit."""

    def __init__(self) -> None:
        self.events: EventLog | None = None
        self.ending: PipelineExit | Exception = SUCCESS
        self.archives = True
        self.runs = 0
        self.has_started = asyncio.Event()
        self.was_cancelled = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, settings: PipelineSettings) -> PipelineExit:
        self.runs += 1
        self.has_started.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if isinstance(self.ending, Exception):
            raise self.ending
        if self.ending == SUCCESS and self.archives:
            assert self.events is not None
            await self.events.acknowledge(LAKE, (await self.events.bounds()).head)
        return self.ending


@dataclass
class ArchivingSetup:
    """Archiving in a house with a clock of the test."""

    house: House
    archiving: PipelineTrigger
    pipeline: FakePipeline
    clock: FakeClock
    installed: list[bool] = field(default_factory=lambda: [True])

    async def send(self, count: int) -> None:
        """Enqueue this many messages, each of them one event."""
        new = [NewMessage(f"hello {number}", AgentId("coder")) for number in range(count)]
        await self.house.store.queue.enqueue_many(new)
        self.clock.now = max(self.clock.now, wall_clock())

    async def check_and_wait(self) -> int:
        """Check once, wait for the run, and return the number of runs so far."""
        await self.archiving.check()
        await self.archiving.wait()
        return self.pipeline.runs

    async def lag(self) -> LakeLag:
        lag = await self.archiving.lag()
        assert lag is not None
        return lag


def archiving_of(
    engine: Engine, pipeline: FakePipeline, clock: FakeClock, is_installed: Callable[[], bool]
) -> PipelineTrigger:
    pipeline.events = engine.store.events
    return PipelineTrigger(engine.store.events, engine._context.effective, pipeline, is_installed, clock)


@pytest.fixture
async def setup(house: House) -> AsyncIterator[ArchivingSetup]:
    clock, pipeline, installed = FakeClock(), FakePipeline(), [True]
    clock.now = wall_clock()
    async with house.open(start=False):
        archiving = archiving_of(house.engine, pipeline, clock, lambda: installed[0])
        yield ArchivingSetup(house, archiving, pipeline, clock, installed)


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, logger="tinyagi.pipeline")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "tinyagi.pipeline"]


async def test_a_few_new_events_start_no_run(setup: ArchivingSetup) -> None:
    await setup.send(499)
    setup.clock.advance(14 * MINUTE)

    assert await setup.check_and_wait() == 0
    assert not setup.archiving.is_running


async def test_many_new_events_start_a_run_at_once(setup: ArchivingSetup) -> None:
    await setup.send(500)

    assert await setup.check_and_wait() == 1
    assert (await setup.lag()).events == 0


async def test_a_single_old_event_starts_a_run(setup: ArchivingSetup) -> None:
    await setup.send(1)
    setup.clock.advance(15 * MINUTE)

    assert await setup.check_and_wait() == 1
    assert setup.archiving.last_run_at == setup.clock.now


async def test_no_run_starts_without_new_events(setup: ArchivingSetup) -> None:
    await setup.send(500)
    await setup.check_and_wait()
    for _ in range(5):
        setup.clock.advance(timedelta(days=1))
        await setup.check_and_wait()

    assert setup.pipeline.runs == 1


async def test_an_empty_log_starts_no_run(setup: ArchivingSetup) -> None:
    setup.clock.advance(timedelta(days=1))

    assert await setup.check_and_wait() == 0
    assert await setup.lag() == LakeLag(through_id=0, head_id=0, events=0, seconds=0)


async def test_a_check_during_a_run_starts_no_second_run(setup: ArchivingSetup) -> None:
    setup.pipeline.gate.clear()
    await setup.send(500)
    await setup.archiving.check()
    await setup.pipeline.has_started.wait()
    await setup.send(500)
    await setup.archiving.check()
    was_running = setup.archiving.is_running
    setup.pipeline.gate.set()
    await setup.archiving.wait()

    assert (was_running, setup.archiving.is_running, setup.pipeline.runs) == (True, False, 1)


async def test_a_disabled_pipeline_does_not_run(setup: ArchivingSetup) -> None:
    await setup.house.engine.settings.save({"pipeline": {"enabled": False}})
    await setup.send(1_000)
    setup.clock.advance(timedelta(days=3))

    assert await setup.check_and_wait() == 0
    assert await setup.archiving.lag() is None


async def test_the_pipeline_does_not_run_without_its_packages(setup: ArchivingSetup) -> None:
    setup.installed[0] = False
    await setup.send(1_000)

    assert await setup.check_and_wait() == 0
    assert not setup.archiving.is_wanted
    assert await setup.archiving.lag() is None


async def test_the_lag_of_an_existing_lake_is_counted_without_the_packages(setup: ArchivingSetup) -> None:
    await setup.send(500)
    await setup.check_and_wait()
    setup.installed[0] = False
    await setup.send(700)

    assert await setup.check_and_wait() == 1
    lag = await setup.lag()
    assert (lag.through_id, lag.head_id, lag.events) == (500, 1_200, 700)


async def test_a_settings_change_applies_at_the_next_check(setup: ArchivingSetup) -> None:
    await setup.send(3)
    await setup.check_and_wait()
    await setup.house.engine.settings.save({"pipeline": {"min_events": 3}})

    assert await setup.check_and_wait() == 1


async def test_the_lag_counts_new_events_and_the_age_of_the_oldest(setup: ArchivingSetup) -> None:
    await setup.send(500)
    await setup.check_and_wait()
    await setup.send(7)
    (first,) = await setup.house.store.events.read_after(500, limit=1)
    setup.clock.now = first.created_at + 90_000

    assert await setup.lag() == LakeLag(through_id=500, head_id=507, events=7, seconds=90)


async def test_events_pruned_before_the_first_run_are_not_counted(setup: ArchivingSetup) -> None:
    await setup.send(10)
    dead = await setup.house.store.queue.abandon(AgentId("coder"), reason="nobody is there")
    before = await setup.lag()
    await setup.house.store.queue.prune(Retention(events=timedelta(0)))
    after = await setup.lag()

    assert (dead, before.events) == (10, before.head_id)
    assert await setup.house.store.events.bounds() == LogBounds(0, before.head_id)
    assert after == LakeLag(0, before.head_id, 0, 0)


async def test_a_failure_is_logged_with_the_last_output_lines(
    setup: ArchivingSetup, warnings: Callable[[], list[str]]
) -> None:
    setup.pipeline.ending = BROKEN
    await setup.send(500)
    await setup.check_and_wait()

    assert warnings() == [
        "the pipeline failed, next try in 1 min: it ended with code 3\nTraceback\nthe disk is full",
    ]
    assert setup.archiving.last_error == "it ended with code 3: the disk is full"
    assert (setup.archiving.failures, (await setup.lag()).events) == (1, 500)


async def test_the_error_is_the_programs_message_and_not_java_output(setup: ArchivingSetup) -> None:
    setup.pipeline.ending = PipelineExit(1, ("tinyagi: There is no Java. Install one.", "at java.base/Thread.run"))
    await setup.send(500)
    await setup.check_and_wait()

    assert setup.archiving.last_error == "it ended with code 1: There is no Java. Install one."


async def test_pauses_between_failures_grow_up_to_half_an_hour(setup: ArchivingSetup) -> None:
    setup.pipeline.ending = PipelineExit(-9)
    await setup.send(500)
    pauses = []
    for run in range(8):
        began = setup.clock.now
        while await setup.check_and_wait() == run:
            setup.clock.advance(MINUTE)
        pauses.append(timedelta(milliseconds=setup.clock.now - began) // MINUTE)

    assert pauses == [0, 1, 2, 4, 8, 16, 30, 30]
    assert setup.archiving.last_error == "it ended by signal 9"


async def test_a_success_resets_the_pause_between_failures(setup: ArchivingSetup) -> None:
    setup.pipeline.ending = BROKEN
    await setup.send(500)
    await setup.check_and_wait()
    setup.clock.advance(MINUTE)
    await setup.check_and_wait()
    setup.clock.advance(2 * MINUTE)
    setup.pipeline.ending = SUCCESS
    await setup.check_and_wait()
    error_after_success = setup.archiving.last_error
    setup.pipeline.ending = BROKEN
    await setup.send(500)
    await setup.check_and_wait()
    setup.clock.advance(MINUTE)

    assert error_after_success is None
    assert await setup.check_and_wait() == 5
    assert setup.archiving.failures == 4


async def test_setting_the_clock_back_does_not_extend_a_pause(setup: ArchivingSetup) -> None:
    setup.pipeline.ending = BROKEN
    await setup.send(500)
    await setup.check_and_wait()
    setup.clock.advance(-LONGEST_PAUSE)

    assert await setup.check_and_wait() == 2


async def test_a_busy_lake_is_no_failure_and_is_tried_again_after_a_minute(
    setup: ArchivingSetup, warnings: Callable[[], list[str]]
) -> None:
    setup.pipeline.ending = PipelineExit(BUSY, ("The lake is being written",))
    await setup.send(500)
    await setup.check_and_wait()
    at_once = await setup.check_and_wait()
    setup.clock.advance(MINUTE)
    later = await setup.check_and_wait()

    assert (at_once, later) == (1, 2)
    assert (setup.archiving.failures, setup.archiving.last_error, warnings()) == (0, None, [])


async def test_a_run_that_archives_nothing_is_a_failure(setup: ArchivingSetup) -> None:
    setup.pipeline.archives = False
    await setup.send(500)
    await setup.check_and_wait()

    assert await setup.check_and_wait() == 1
    assert setup.archiving.last_error == "it ended without an error but archived nothing"


async def test_a_process_that_cannot_be_started_is_a_failure(setup: ArchivingSetup) -> None:
    setup.pipeline.ending = OSError("no more processes")
    await setup.send(500)
    await setup.check_and_wait()

    assert (setup.archiving.failures, setup.archiving.last_error) == (1, "no more processes")
    assert await setup.check_and_wait() == 1


async def test_an_unexpected_error_at_the_start_is_a_failure(
    setup: ArchivingSetup, caplog: pytest.LogCaptureFixture
) -> None:
    setup.pipeline.ending = ZeroDivisionError("a fault")
    await setup.send(500)
    await setup.check_and_wait()

    assert (setup.archiving.failures, setup.archiving.last_error) == (1, "ZeroDivisionError: a fault")
    assert any(record.exc_info for record in caplog.records)
    assert await setup.check_and_wait() == 1


async def test_a_lagging_lake_is_warned_about_once_a_day(
    setup: ArchivingSetup, warnings: Callable[[], list[str]]
) -> None:
    await setup.send(500)
    await setup.check_and_wait()
    await setup.send(5)
    setup.installed[0] = False
    await setup.check_and_wait()
    counts = []
    for _ in range(4 * 24):
        setup.clock.advance(HOUR)
        await setup.check_and_wait()
        counts.append(len(warnings()))

    assert [counts[hour - 1] for hour in (23, 24, 47, 48, 72, 95, 96)] == [0, 1, 1, 2, 3, 3, 4]
    assert "5 events and 24 hours behind" in warnings()[0]
    assert "`tinyagi pipeline run`" in warnings()[0]
    assert "`tinyagi pipeline detach`" in warnings()[0]


async def test_a_lagging_lake_has_half_an_hour_to_catch_up_before_a_warning(
    setup: ArchivingSetup, warnings: Callable[[], list[str]]
) -> None:
    await setup.send(500)
    setup.clock.advance(timedelta(days=3))
    setup.pipeline.gate.clear()
    await setup.archiving.check()
    setup.clock.advance(29 * MINUTE)
    await setup.archiving.check()
    in_time = warnings()
    setup.clock.advance(MINUTE)
    await setup.archiving.check()
    setup.pipeline.gate.set()
    await setup.archiving.wait()

    assert in_time == []
    assert len(warnings()) == 1, "a hanging run is reported, too"
