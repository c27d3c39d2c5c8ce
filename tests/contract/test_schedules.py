"""Schedules: edited by people, due in time, and sent once for each due time, whoever else is there to send."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.conftest import CODER, WRITER
from tests.contract.test_claim import take
from tests.support.clock import FakeClock
from tinyagi.domain.errors import Conflict, DuplicateMessage, InvalidInput, NotFound
from tinyagi.domain.ids import MessageId
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.schedules import NewSchedule, Schedule, ScheduleId
from tinyagi.store.base import Store
from tinyagi.store.sqlite.store import SqliteStore

DAILY = NewSchedule("daily", CODER, "report", cron="0 9 * * *")
ONCE = NewSchedule("once", CODER, "remind", run_at=500)
MESSAGE = NewMessage("report", CODER, channel="schedule", sender="Scheduler")


async def pending(store: Store) -> int:
    return (await store.queue.depth()).pending


async def test_a_schedule_comes_back_as_it_was_added(store: Store, clock: FakeClock) -> None:
    new = replace(DAILY, channel="telegram", sender="Ada", enabled=False, timezone="Europe/Berlin")
    daily = await store.schedules.add(new, next_at=1000)
    once = await store.schedules.add(ONCE, next_at=500)

    assert daily.id.startswith("sched_")
    assert daily == Schedule(
        daily.id,
        "daily",
        CODER,
        "report",
        "0 9 * * *",
        None,
        "telegram",
        "Ada",
        False,
        "Europe/Berlin",
        next_at=1000,
        last_at=None,
        created_at=clock.now,
        updated_at=clock.now,
    )
    assert (once.cron, once.run_at, once.enabled) == (None, 500, True)
    assert await store.schedules.find(daily.id) == daily
    assert await store.schedules.all() == (daily, once)


async def test_a_label_belongs_to_one_schedule(store: Store) -> None:
    daily = await store.schedules.add(DAILY, next_at=1000)
    once = await store.schedules.add(ONCE, next_at=500)

    with pytest.raises(Conflict, match="daily"):
        await store.schedules.add(replace(ONCE, label="daily"), next_at=500)
    with pytest.raises(Conflict, match="daily"):
        await store.schedules.replace(replace(once, label="daily"))
    assert (await store.schedules.replace(daily)).label == "daily"
    assert len(await store.schedules.all()) == 2


@pytest.mark.parametrize(
    "bad",
    [replace(DAILY, run_at=5), replace(DAILY, cron=None), replace(DAILY, label="")],
    ids=["both", "none", "label"],
)
async def test_a_schedule_has_a_label_and_either_cron_or_an_instant(store: Store, bad: NewSchedule) -> None:
    stored = await store.schedules.add(DAILY, next_at=1000)

    with pytest.raises(InvalidInput):
        await store.schedules.add(bad, next_at=1000)
    with pytest.raises(InvalidInput):
        await store.schedules.replace(replace(stored, label=bad.label, cron=bad.cron, run_at=bad.run_at))
    assert await store.schedules.all() == (stored,)


async def test_a_schedule_is_replaced_as_it_is_given(store: Store, clock: FakeClock) -> None:
    stored = await store.schedules.add(DAILY, next_at=1000)
    clock.now += 5
    given = replace(
        stored, label="l", agent_id=WRITER, message="m", cron=None, run_at=7, enabled=False, timezone="UTC", next_at=7
    )

    replaced = await store.schedules.replace(given)

    assert replaced == replace(given, updated_at=clock.now)
    assert await store.schedules.find(stored.id) == replaced


async def test_what_is_not_there_is_not_found(store: Store) -> None:
    stored = await store.schedules.add(DAILY, next_at=1000)
    await store.schedules.delete(stored.id)

    for call in (
        store.schedules.find(stored.id),
        store.schedules.replace(stored),
        store.schedules.delete(ScheduleId("sched_0")),
    ):
        with pytest.raises(NotFound, match="schedule list"):
            await call
    assert await store.schedules.all() == ()


async def test_due_is_what_is_enabled_and_whose_instant_has_come(store: Store) -> None:
    assert await store.schedules.next_due_at() is None
    daily = await store.schedules.add(DAILY, next_at=1000)
    once = await store.schedules.add(ONCE, next_at=500)
    await store.schedules.add(replace(DAILY, label="off", enabled=False), next_at=1)
    await store.schedules.add(replace(DAILY, label="never"), next_at=None)

    assert await store.schedules.next_due_at() == 500
    assert await store.schedules.due(499) == ()
    assert await store.schedules.due(500) == (once,)
    assert await store.schedules.due(1000) == (once, daily)


async def test_firing_sends_the_message_and_goes_on(store: Store) -> None:
    daily = await store.schedules.add(DAILY, next_at=1000)

    sent = await store.schedules.fire(daily, MESSAGE, next_at=2000)

    assert sent is not None
    assert (sent.message, sent.channel) == ("report", "schedule")
    assert (await take(store)).primary.id == sent.id
    assert await store.schedules.find(daily.id) == replace(daily, next_at=2000, last_at=1000)
    assert await store.schedules.due(1999) == ()


async def test_what_fires_for_the_last_time_is_never_due_again(store: Store) -> None:
    once = await store.schedules.add(ONCE, next_at=500)

    await store.schedules.fire(once, MESSAGE, next_at=None)

    assert await store.schedules.next_due_at() is None
    fired = await store.schedules.find(once.id)
    assert (fired.next_at, fired.last_at) == (None, 500)
    assert await store.schedules.fire(fired, MESSAGE, next_at=None) is None


async def test_a_due_time_is_sent_once_however_often_it_is_fired(store: Store) -> None:
    daily = await store.schedules.add(DAILY, next_at=1000)

    sent = await asyncio.gather(*(store.schedules.fire(daily, MESSAGE, next_at=2000) for _ in range(5)))

    assert sum(message is not None for message in sent) == 1
    assert await pending(store) == 1
    assert await store.schedules.fire(await store.schedules.find(daily.id), MESSAGE, next_at=3000) is not None


async def test_two_processes_that_fire_the_same_due_times_send_each_once(
    store: Store, database: Path, clock: FakeClock
) -> None:
    async with await SqliteStore.open(database, clock=clock, dice=random.Random(8)) as other:
        for due in range(1, 40):
            schedule = await store.schedules.add(replace(DAILY, label=f"s{due}"), next_at=due)
            both = (one.schedules.fire(schedule, MESSAGE, next_at=1000) for one in (store, other))
            assert [message is None for message in await asyncio.gather(*both)].count(True) == 1

    assert await pending(store) == 39


async def test_what_was_disabled_or_deleted_meanwhile_does_not_fire(store: Store) -> None:
    daily = await store.schedules.add(DAILY, next_at=1000)
    once = await store.schedules.add(ONCE, next_at=500)
    await store.schedules.replace(replace(daily, enabled=False))
    await store.schedules.delete(once.id)

    assert await store.schedules.fire(daily, MESSAGE, next_at=2000) is None
    assert await store.schedules.fire(once, MESSAGE, next_at=None) is None
    assert await pending(store) == 0
    assert (await store.schedules.find(daily.id)).next_at == 1000


async def test_a_message_that_is_refused_leaves_the_due_time(store: Store) -> None:
    daily = await store.schedules.add(DAILY, next_at=1000)
    repeated = MESSAGE._replace(message_id=MessageId("m1"))
    await store.queue.enqueue(repeated)

    with pytest.raises(DuplicateMessage, match="m1"):
        await store.schedules.fire(daily, repeated, next_at=2000)
    with pytest.raises(InvalidInput):
        await store.schedules.fire(daily, MESSAGE._replace(channel="Not A Channel"), next_at=2000)
    with pytest.raises(InvalidInput, match="past"):
        await store.schedules.fire(daily, MESSAGE, next_at=1000)

    assert await store.schedules.due(1000) == (daily,)
    assert await pending(store) == 1


async def test_an_edit_of_what_was_read_before_it_fired_does_not_bring_the_due_time_back(store: Store) -> None:
    seen = await store.schedules.add(DAILY, next_at=1000)
    await store.schedules.fire(seen, MESSAGE, next_at=2000)

    edited = await store.schedules.replace(replace(seen, message="another text"))

    assert (edited.message, edited.next_at, edited.last_at) == ("another text", 2000, 1000)
    assert (await store.schedules.replace(replace(seen, next_at=1500))).next_at == 1500
