"""Schedules: sent when they are due, once for each due time, whoever restarts, edits or is first."""

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
class Desk:
    """A house whose engine is not started, with schedules that go by a clock of the test."""

    house: House
    clock: FakeClock
    book: ScheduleEditor
    scheduler: Scheduler

    async def due_in(self, after: timedelta, label: str = "once", agent: str = "writer") -> Schedule:
        run_at = self.clock.now + after // timedelta(milliseconds=1)
        return await self.book.add(NewSchedule(label, AgentId(agent), "do it", run_at=run_at))

    async def after(self, pause: timedelta) -> list[str]:
        """What is sent when the next look is this much later."""
        before = len(await self.house.messages())
        self.clock.advance(pause)
        await self.scheduler.look()
        return [message.message for message in (await self.house.messages())[before:]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def desk(house: House, clock: FakeClock) -> AsyncIterator[Desk]:
    async with house.open(start=False):
        yield _desk(house, house.engine, clock)


@asynccontextmanager
async def another_engine(house: House) -> AsyncIterator[Engine]:
    """A second engine on the same home, with a store of its own."""
    async with open_engine(house.home, adapters=dict.fromkeys(ADAPTERS, house.puppet)) as engine:
        yield engine


def _desk(house: House, engine: Engine, clock: FakeClock) -> Desk:
    book = ScheduleEditor(engine.store.schedules, engine._context.effective, clock)
    return Desk(house, clock, book, Scheduler(engine.store, engine.inbox, clock))


async def test_a_schedule_is_sent_when_it_is_due_and_not_before(desk: Desk) -> None:
    added = await desk.book.add(HOURLY)
    assert added.next_at is not None
    wait = timedelta(milliseconds=added.next_at - desk.clock.now)

    assert await desk.after(wait - timedelta(milliseconds=1)) == []
    assert await desk.after(timedelta(milliseconds=1)) == ["write the report"]
    assert await desk.after(timedelta(minutes=59)) == []
    assert await desk.after(MINUTE) == ["write the report"]


async def test_the_message_says_whose_schedule_it_is_and_which_due_time(desk: Desk) -> None:
    added = await desk.due_in(MINUTE)
    await desk.after(MINUTE)
    (message,) = await desk.house.messages()
    (routed,) = await desk.house.events("agent_routed")

    assert (message.agent, message.channel, message.sender) == ("writer", "schedule", "Scheduler")
    assert message.message_id.startswith("schedule_")
    assert message.message_id.endswith(f"{added.id}_{added.run_at}")
    assert routed.payload["agent_name"] == "Writer"


async def test_a_schedule_for_a_team_goes_to_its_leader(desk: Desk) -> None:
    await desk.due_in(MINUTE, agent="dev")
    await desk.after(MINUTE)
    (message,) = await desk.house.messages()

    assert (message.agent, message.team) == ("coder", "dev")
    assert await desk.house.events("team_chain_start")


async def test_a_schedule_that_fails_holds_back_no_other_of_the_same_agent(desk: Desk) -> None:
    for label in ("a", "b"):
        await desk.due_in(MINUTE, label)
    await desk.after(MINUTE)
    first, second = await desk.house.messages()

    assert first.thread != second.thread


async def test_what_was_missed_many_times_is_sent_once_and_the_next_one_is_ahead(desk: Desk) -> None:
    await desk.book.add(HOURLY)
    assert await desk.after(timedelta(days=3)) == ["write the report"]
    (schedule,) = await desk.book.all()

    assert schedule.next_at is not None
    assert desk.clock.now < schedule.next_at <= desk.clock.now + HOUR // timedelta(milliseconds=1)
    assert await desk.after(timedelta()) == []


async def test_a_single_instant_that_was_missed_is_sent_at_the_next_start(house: House, clock: FakeClock) -> None:
    async with house.open(start=False):
        await _desk(house, house.engine, clock).due_in(MINUTE)
    async with house.open(start=False):
        assert await _desk(house, house.engine, clock).after(timedelta(days=7)) == ["do it"]


async def test_a_single_instant_is_disabled_once_it_was_sent_and_stays_to_be_seen(desk: Desk) -> None:
    added = await desk.due_in(MINUTE)
    await desk.after(MINUTE)
    (schedule,) = await desk.book.all()

    assert (schedule.enabled, schedule.next_at, schedule.last_at) == (False, None, added.run_at)


async def test_two_engines_send_once_for_each_due_time(desk: Desk) -> None:
    for number in range(20):
        await desk.due_in(MINUTE, f"once {number}")
    await desk.book.add(HOURLY)
    async with another_engine(desk.house) as engine:
        other = Scheduler(engine.store, engine.inbox, desk.clock)
        for _ in range(3):
            desk.clock.advance(HOUR)
            await asyncio.gather(desk.scheduler.look(), other.look())
    texts = [message.message for message in await desk.house.messages()]

    assert (texts.count("do it"), texts.count("write the report")) == (20, 3)


async def test_a_clock_that_is_set_back_makes_nothing_due_again(desk: Desk) -> None:
    await desk.book.add(HOURLY)
    await desk.due_in(MINUTE)
    assert sorted(await desk.after(HOUR)) == ["do it", "write the report"]
    assert await desk.after(-2 * HOUR) == []
    assert await desk.after(2 * HOUR) == []


async def test_an_edit_after_a_clock_was_set_back_does_not_have_it_sent_again(desk: Desk) -> None:
    added = await desk.book.add(HOURLY)
    once = await desk.due_in(MINUTE)
    await desk.after(HOUR)
    desk.clock.advance(-2 * HOUR)
    edited = await desk.book.change(added.id, timezone="Europe/Berlin")
    with pytest.raises(InvalidInput, match="which is over: choose a later instant"):
        await desk.book.change(once.id, enabled=True)

    assert added.next_at is not None
    assert edited.next_at == added.next_at + HOUR // timedelta(milliseconds=1)
    assert await desk.after(2 * HOUR) == []
    assert await desk.after(HOUR) == ["write the report"]


async def test_a_due_time_whose_message_is_stored_already_is_passed_over(desk: Desk) -> None:
    added = await desk.due_in(MINUTE)
    await desk.house.send("@coder I was first", message_id=f"schedule_{added.id}_{added.run_at}")

    assert await desk.after(MINUTE) == []
    assert [schedule.enabled for schedule in await desk.book.all()] == [False]


async def test_an_agent_that_is_gone_skips_a_due_time_and_a_single_instant_stays_disabled(
    house: House, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with house.open(start=False):
        desk = _desk(house, house.engine, clock)
        await desk.book.add(HOURLY)
        await desk.due_in(MINUTE)
        await desk.due_in(MINUTE, "for another", agent="tester")
    del house.settings["agents"]["writer"]
    house.settings["teams"] = {}
    async with house.open(start=False):
        desk = _desk(house, house.engine, clock)
        assert await desk.after(2 * HOUR) == ["do it"]
        hourly, once, _ = await desk.book.all()

    assert hourly.enabled
    assert hourly.next_at is not None
    assert hourly.next_at > clock.now
    assert (once.enabled, once.next_at, once.last_at) == (False, None, None)
    assert "schedule hourly was due and could not be sent: There is no agent or team 'writer'" in caplog.text


async def test_a_row_that_another_tool_spoilt_is_disabled_and_the_rest_goes_on(desk: Desk) -> None:
    spoilt = replace(HOURLY, label="spoilt", cron="every day")
    await desk.house.store.schedules.add(spoilt, next_at=desk.clock.now)
    await desk.due_in(MINUTE)
    assert await desk.after(MINUTE) == ["do it"]

    assert [(one.label, one.enabled) for one in await desk.book.all()] == [("spoilt", False), ("once", False)]


async def test_a_new_time_counts_from_now_and_a_new_text_leaves_the_time(desk: Desk) -> None:
    added = await desk.book.add(HOURLY)
    renamed = await desk.book.change(added.id, message="another text", label="other")
    assert (renamed.next_at, renamed.message) == (added.next_at, "another text")

    daily = await desk.book.change(added.id, cron="0 0 1 1 *")
    assert daily.next_at is not None
    assert added.next_at is not None
    assert daily.next_at > added.next_at


async def test_a_new_text_does_not_make_it_miss_an_instant_that_has_come(desk: Desk) -> None:
    repeated, once = await desk.book.add(HOURLY), await desk.due_in(MINUTE)
    desk.clock.advance(HOUR)
    for schedule in (repeated, once):
        await desk.book.change(schedule.id, message="new text")

    assert await desk.after(timedelta()) == ["new text", "new text"]


async def test_a_schedule_that_is_enabled_again_does_not_send_what_was_due_meanwhile(desk: Desk) -> None:
    added = await desk.book.add(HOURLY)
    disabled = await desk.book.change(added.id, enabled=False)
    assert (disabled.enabled, disabled.next_at) == (False, None)
    assert await desk.after(5 * HOUR) == []
    await desk.book.change(added.id, enabled=True)

    assert await desk.after(timedelta()) == []
    assert await desk.after(HOUR) == ["write the report"]


async def test_a_single_instant_that_is_over_is_not_enabled_again_without_a_later_one(desk: Desk) -> None:
    added = await desk.due_in(MINUTE)
    await desk.after(MINUTE)
    with pytest.raises(InvalidInput, match="runAt is 2027-01-15T08:01:00Z, which is over"):
        await desk.book.change(added.id, enabled=True)
    again = desk.clock.now + 60_000
    await desk.book.change(added.id, enabled=True, run_at=again)

    assert await desk.after(MINUTE) == ["do it"]


async def test_a_repeated_schedule_becomes_a_single_one_and_back(desk: Desk) -> None:
    added = await desk.book.add(HOURLY)
    once = await desk.book.change(added.id, run_at=desk.clock.now + 1_000)
    assert (once.cron, once.next_at) == (None, desk.clock.now + 1_000)
    repeated = await desk.book.change(added.id, cron="0 * * * *")

    assert (repeated.run_at, repeated.next_at) == (None, added.next_at)


async def test_now_is_taken_for_an_instant_and_yesterday_is_not(desk: Desk) -> None:
    await desk.due_in(-timedelta(seconds=5))
    assert await desk.after(timedelta()) == ["do it"]
    with pytest.raises(InvalidInput, match="choose a later instant"):
        await desk.due_in(-timedelta(days=1), "yesterday")


async def test_what_cannot_be_a_schedule_is_refused(desk: Desk) -> None:
    added = await desk.book.add(HOURLY)
    with pytest.raises(Conflict, match="hourly"):
        await desk.book.add(HOURLY)
    with pytest.raises(InvalidInput, match="known are: coder, writer, tester, dev"):
        await desk.book.add(replace(HOURLY, label="b", agent_id=AgentId("ghost")))
    with pytest.raises(InvalidInput, match="known are"):
        await desk.book.change(added.id, agent_id=AgentId("ghost"))
    with pytest.raises(InvalidInput, match="wrong in its hour"):
        await desk.book.change(added.id, cron="0 99 * * *")
    with pytest.raises(NotFound):
        await desk.book.change(ScheduleId("sched_none"), enabled=False)
    assert await desk.book.all() == (added,)


async def test_a_schedule_that_was_removed_is_not_sent(desk: Desk) -> None:
    added = await desk.book.add(HOURLY)
    await desk.book.remove(added.id)
    assert await desk.after(HOUR) == []


async def test_a_running_engine_sends_what_becomes_due_and_answers_it(house: House) -> None:
    async with house.open():
        await house.engine.schedules.add(NewSchedule("soon", AgentId("coder"), "go", run_at=wall_clock() + 100))
        await house.until_event("response_ready")

    assert house.puppet.prompts_of("coder") == ["go"]


async def test_an_edit_by_another_process_is_seen_while_the_engine_waits(house: House) -> None:
    async with house.open():
        far = NewSchedule("far", AgentId("coder"), "go", run_at=wall_clock() + 3_600_000)
        schedule = await house.engine.schedules.add(far)
        async with another_engine(house) as engine:
            await engine.schedules.change(schedule.id, run_at=wall_clock())
            await house.until_event("response_ready")


async def test_a_store_that_fails_for_a_moment_does_not_end_the_scheduler(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
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
