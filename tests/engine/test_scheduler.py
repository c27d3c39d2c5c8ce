"""Schedules: sent when due, once for each due time, across restarts, edits and several engines."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from tests.engine.conftest import ADAPTERS, House
from tests.support.clock import FakeClock
from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.domain.ids import AgentId
from tinyagi.domain.schedules import NewSchedule, Schedule, ScheduleId
from tinyagi.engine.engine import Engine
from tinyagi.engine.schedules import ScheduleEditor, Scheduler
from tinyagi.system.clock import wall_clock
from tinyagi.wiring import open_engine

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
HOURLY = NewSchedule("hourly", AgentId("writer"), "write the report", cron="0 * * * *", timezone="UTC")


@dataclass
class ScheduleSetup:
    """A house whose engine is not started, with schedules that go by a clock of the test."""

    house: House
    clock: FakeClock
    editor: ScheduleEditor
    scheduler: Scheduler

    async def due_in(self, after: timedelta, label: str = "once", agent: str = "writer") -> Schedule:
        run_at = self.clock.now + after // timedelta(milliseconds=1)
        return await self.editor.add(NewSchedule(label, AgentId(agent), "do it", run_at=run_at))

    async def after(self, pause: timedelta) -> list[str]:
        """Advance the clock, run the scheduler once, and return the texts it sends."""
        before = len(await self.house.messages())
        self.clock.advance(pause)
        await self.scheduler.send_due()
        return [message.message for message in (await self.house.messages())[before:]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def setup(house: House, clock: FakeClock) -> AsyncIterator[ScheduleSetup]:
    async with house.open(start=False):
        yield _setup(house, house.engine, clock)


@asynccontextmanager
async def another_engine(house: House) -> AsyncIterator[Engine]:
    """A second engine with its own store on the same home."""
    async with open_engine(house.home, adapters=dict.fromkeys(ADAPTERS, house.puppet)) as engine:
        yield engine


def _setup(house: House, engine: Engine, clock: FakeClock) -> ScheduleSetup:
    editor = ScheduleEditor(engine.store.schedules, engine._context.effective, clock)
    return ScheduleSetup(house, clock, editor, Scheduler(engine.store, engine.inbox, clock))


async def test_a_schedule_is_sent_when_it_is_due_and_not_before(setup: ScheduleSetup) -> None:
    added = await setup.editor.add(HOURLY)
    assert added.next_at is not None
    wait = timedelta(milliseconds=added.next_at - setup.clock.now)

    assert await setup.after(wait - timedelta(milliseconds=1)) == []
    assert await setup.after(timedelta(milliseconds=1)) == ["write the report"]
    assert await setup.after(timedelta(minutes=59)) == []
    assert await setup.after(MINUTE) == ["write the report"]


async def test_the_message_id_names_the_schedule_and_the_due_time(setup: ScheduleSetup) -> None:
    added = await setup.due_in(MINUTE)
    await setup.after(MINUTE)
    (message,) = await setup.house.messages()
    (routed,) = await setup.house.events("agent_routed")

    assert (message.agent, message.channel, message.sender) == ("writer", "schedule", "Scheduler")
    assert message.message_id.startswith("schedule_")
    assert message.message_id.endswith(f"{added.id}_{added.run_at}")
    assert routed.payload["agent_name"] == "Writer"


async def test_a_schedule_for_a_team_goes_to_its_leader(setup: ScheduleSetup) -> None:
    await setup.due_in(MINUTE, agent="dev")
    await setup.after(MINUTE)
    (message,) = await setup.house.messages()

    assert (message.agent, message.team) == ("coder", "dev")
    assert await setup.house.events("team_chain_start")


async def test_schedules_of_the_same_agent_have_different_threads(setup: ScheduleSetup) -> None:
    for label in ("a", "b"):
        await setup.due_in(MINUTE, label)
    await setup.after(MINUTE)
    first, second = await setup.house.messages()

    assert first.thread != second.thread


async def test_many_missed_due_times_are_sent_once(setup: ScheduleSetup) -> None:
    await setup.editor.add(HOURLY)
    assert await setup.after(timedelta(days=3)) == ["write the report"]
    (schedule,) = await setup.editor.all()

    assert schedule.next_at is not None
    assert setup.clock.now < schedule.next_at <= setup.clock.now + HOUR // timedelta(milliseconds=1)
    assert await setup.after(timedelta()) == []


async def test_a_missed_single_time_is_sent_at_the_next_start(house: House, clock: FakeClock) -> None:
    async with house.open(start=False):
        await _setup(house, house.engine, clock).due_in(MINUTE)
    async with house.open(start=False):
        assert await _setup(house, house.engine, clock).after(timedelta(days=7)) == ["do it"]


async def test_a_single_time_is_disabled_after_it_was_sent(setup: ScheduleSetup) -> None:
    added = await setup.due_in(MINUTE)
    await setup.after(MINUTE)
    (schedule,) = await setup.editor.all()

    assert (schedule.enabled, schedule.next_at, schedule.last_at) == (False, None, added.run_at)


async def test_two_engines_send_once_for_each_due_time(setup: ScheduleSetup) -> None:
    for number in range(20):
        await setup.due_in(MINUTE, f"once {number}")
    await setup.editor.add(HOURLY)
    async with another_engine(setup.house) as engine:
        other = Scheduler(engine.store, engine.inbox, setup.clock)
        for _ in range(3):
            setup.clock.advance(HOUR)
            await asyncio.gather(setup.scheduler.send_due(), other.send_due())
    texts = [message.message for message in await setup.house.messages()]

    assert (texts.count("do it"), texts.count("write the report")) == (20, 3)


async def test_setting_the_clock_back_sends_nothing_again(setup: ScheduleSetup) -> None:
    await setup.editor.add(HOURLY)
    await setup.due_in(MINUTE)
    assert sorted(await setup.after(HOUR)) == ["do it", "write the report"]
    assert await setup.after(-2 * HOUR) == []
    assert await setup.after(2 * HOUR) == []


async def test_an_edit_after_the_clock_was_set_back_sends_nothing_again(setup: ScheduleSetup) -> None:
    added = await setup.editor.add(HOURLY)
    once = await setup.due_in(MINUTE)
    await setup.after(HOUR)
    setup.clock.advance(-2 * HOUR)
    edited = await setup.editor.change(added.id, timezone="Europe/Berlin")
    with pytest.raises(InvalidInput, match="which is in the past: choose a later instant"):
        await setup.editor.change(once.id, enabled=True)

    assert added.next_at is not None
    assert edited.next_at == added.next_at + HOUR // timedelta(milliseconds=1)
    assert await setup.after(2 * HOUR) == []
    assert await setup.after(HOUR) == ["write the report"]


async def test_a_due_time_whose_message_exists_is_skipped(setup: ScheduleSetup) -> None:
    added = await setup.due_in(MINUTE)
    await setup.house.send("@coder I was first", message_id=f"schedule_{added.id}_{added.run_at}")

    assert await setup.after(MINUTE) == []
    assert [schedule.enabled for schedule in await setup.editor.all()] == [False]


async def test_a_due_time_of_a_deleted_agent_is_skipped_with_a_warning(
    house: House, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with house.open(start=False):
        setup = _setup(house, house.engine, clock)
        await setup.editor.add(HOURLY)
        await setup.due_in(MINUTE)
        await setup.due_in(MINUTE, "for another", agent="tester")
    del house.settings["agents"]["writer"]
    house.settings["teams"] = {}
    async with house.open(start=False):
        setup = _setup(house, house.engine, clock)
        assert await setup.after(2 * HOUR) == ["do it"]
        hourly, once, _ = await setup.editor.all()

    assert hourly.enabled
    assert hourly.next_at is not None
    assert hourly.next_at > clock.now
    assert (once.enabled, once.next_at, once.last_at) == (False, None, None)
    assert "schedule hourly was due and could not be sent: There is no agent or team 'writer'" in caplog.text


async def test_a_schedule_with_an_invalid_cron_is_disabled_and_others_run(setup: ScheduleSetup) -> None:
    spoilt = replace(HOURLY, label="spoilt", cron="every day")
    await setup.house.store.schedules.add(spoilt, next_at=setup.clock.now)
    await setup.due_in(MINUTE)
    assert await setup.after(MINUTE) == ["do it"]

    assert [(one.label, one.enabled) for one in await setup.editor.all()] == [("spoilt", False), ("once", False)]


async def test_a_new_cron_changes_the_next_time_and_a_new_text_does_not(setup: ScheduleSetup) -> None:
    added = await setup.editor.add(HOURLY)
    renamed = await setup.editor.change(added.id, message="another text", label="other")
    assert (renamed.next_at, renamed.message) == (added.next_at, "another text")

    daily = await setup.editor.change(added.id, cron="0 0 1 1 *")
    assert daily.next_at is not None
    assert added.next_at is not None
    assert daily.next_at > added.next_at


async def test_a_new_text_does_not_skip_a_due_time(setup: ScheduleSetup) -> None:
    repeated, once = await setup.editor.add(HOURLY), await setup.due_in(MINUTE)
    setup.clock.advance(HOUR)
    for schedule in (repeated, once):
        await setup.editor.change(schedule.id, message="new text")

    assert await setup.after(timedelta()) == ["new text", "new text"]


async def test_a_reenabled_schedule_does_not_send_missed_times(setup: ScheduleSetup) -> None:
    added = await setup.editor.add(HOURLY)
    disabled = await setup.editor.change(added.id, enabled=False)
    assert (disabled.enabled, disabled.next_at) == (False, None)
    assert await setup.after(5 * HOUR) == []
    await setup.editor.change(added.id, enabled=True)

    assert await setup.after(timedelta()) == []
    assert await setup.after(HOUR) == ["write the report"]


async def test_a_past_single_time_cannot_be_reenabled(setup: ScheduleSetup) -> None:
    added = await setup.due_in(MINUTE)
    await setup.after(MINUTE)
    with pytest.raises(InvalidInput, match="runAt is 2027-01-15T08:01:00Z, which is in the past"):
        await setup.editor.change(added.id, enabled=True)
    again = setup.clock.now + 60_000
    await setup.editor.change(added.id, enabled=True, run_at=again)

    assert await setup.after(MINUTE) == ["do it"]


async def test_a_schedule_can_change_between_cron_and_a_single_time(setup: ScheduleSetup) -> None:
    added = await setup.editor.add(HOURLY)
    once = await setup.editor.change(added.id, run_at=setup.clock.now + 1_000)
    assert (once.cron, once.next_at) == (None, setup.clock.now + 1_000)
    repeated = await setup.editor.change(added.id, cron="0 * * * *")

    assert (repeated.run_at, repeated.next_at) == (None, added.next_at)


async def test_a_time_a_few_seconds_ago_is_accepted_and_yesterday_is_refused(setup: ScheduleSetup) -> None:
    await setup.due_in(-timedelta(seconds=5))
    assert await setup.after(timedelta()) == ["do it"]
    with pytest.raises(InvalidInput, match="choose a later instant"):
        await setup.due_in(-timedelta(days=1), "yesterday")


async def test_an_invalid_schedule_is_refused(setup: ScheduleSetup) -> None:
    added = await setup.editor.add(HOURLY)
    with pytest.raises(Conflict, match="hourly"):
        await setup.editor.add(HOURLY)
    with pytest.raises(InvalidInput, match="There are: coder, writer, tester, dev"):
        await setup.editor.add(replace(HOURLY, label="b", agent_id=AgentId("ghost")))
    with pytest.raises(InvalidInput, match="There are"):
        await setup.editor.change(added.id, agent_id=AgentId("ghost"))
    with pytest.raises(InvalidInput, match="wrong in its hour"):
        await setup.editor.change(added.id, cron="0 99 * * *")
    with pytest.raises(NotFound):
        await setup.editor.change(ScheduleId("sched_none"), enabled=False)
    assert await setup.editor.all() == (added,)


async def test_a_removed_schedule_is_not_sent(setup: ScheduleSetup) -> None:
    added = await setup.editor.add(HOURLY)
    await setup.editor.remove(added.id)
    assert await setup.after(HOUR) == []


async def test_a_running_engine_sends_and_answers_a_due_schedule(house: House) -> None:
    async with house.open():
        await house.engine.schedules.add(NewSchedule("soon", AgentId("coder"), "go", run_at=wall_clock() + 100))
        await house.until_event("response_ready")

    assert house.puppet.prompts_of("coder") == ["go"]


async def test_a_running_engine_sees_an_edit_by_another_process(house: House) -> None:
    async with house.open():
        far = NewSchedule("far", AgentId("coder"), "go", run_at=wall_clock() + 3_600_000)
        schedule = await house.engine.schedules.add(far)
        async with another_engine(house) as engine:
            await engine.schedules.change(schedule.id, run_at=wall_clock())
            await house.until_event("response_ready")


async def test_a_store_error_does_not_end_the_scheduler(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house.open(start=False):
        schedules = house.store.schedules
        due, refusals = schedules.due, [NotFound("away")]

        async def failing(now: int) -> tuple[Schedule, ...]:
            if refusals:
                raise refusals.pop()
            return await due(now)

        monkeypatch.setattr(schedules, "due", failing)
        await house.engine.schedules.add(NewSchedule("now", AgentId("coder"), "go", run_at=wall_clock()))
        await house.engine.start()
        await house.until_event("response_ready")

    assert refusals == []
