"""Schedules: editing, due times, and that each due time is sent once, even by several processes."""

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
from tinyagi.domain.messages import Message, NewMessage
from tinyagi.domain.schedules import NewSchedule, Schedule, ScheduleId
from tinyagi.store.store import Store

DAILY = NewSchedule("daily", CODER, "report", cron="0 9 * * *")
ONCE = NewSchedule("once", CODER, "remind", run_at=500)
MESSAGE = NewMessage("report", CODER, channel="schedule", sender="Scheduler")


def keep_due_time(before: Schedule, _: Schedule) -> int | None:
    """An edit that leaves the due time."""
    return before.next_at


async def fire(
    store: Store, schedule: Schedule, message: NewMessage | None = MESSAGE, *, next_at: int | None
) -> Message | None:
    """Fire it for the due time that the caller has read."""
    assert schedule.next_at is not None
    return await store.schedules.fire(
        schedule.id, schedule.next_at, message=lambda _: message, next_at=lambda _: next_at
    )


async def find(store: Store, schedule: ScheduleId) -> Schedule:
    return next(one for one in await store.schedules.all() if one.id == schedule)


async def pending(store: Store) -> int:
    return (await store.queue.depth()).pending


async def test_a_schedule_comes_back_as_it_was_added(store: Store, clock: FakeClock) -> None:
    new = replace(DAILY, channel="telegram", sender="Ada", sender_id="4711", enabled=False, timezone="Europe/Berlin")
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
        "4711",
        False,
        "Europe/Berlin",
        next_at=1000,
        last_at=None,
        created_at=clock.now,
        updated_at=clock.now,
    )
    assert (once.cron, once.run_at, once.enabled) == (None, 500, True)
    assert await store.schedules.all() == (daily, once)


async def test_a_label_belongs_to_one_schedule(store: Store) -> None:
    daily = await store.schedules.add(DAILY, next_at=1000)
    once = await store.schedules.add(ONCE, next_at=500)

    with pytest.raises(Conflict, match="daily"):
        await store.schedules.add(replace(ONCE, label="daily"), next_at=500)
    with pytest.raises(Conflict, match="daily"):
        await store.schedules.change(once.id, {"label": "daily"}, next_at=keep_due_time)
    assert (await store.schedules.change(daily.id, {"label": "daily"}, next_at=keep_due_time)).label == "daily"
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
        await store.schedules.change(
            stored.id, {"label": bad.label, "cron": bad.cron, "run_at": bad.run_at}, next_at=keep_due_time
        )
    assert await store.schedules.all() == (stored,)


async def test_changing_a_schedule_changes_only_the_given_fields(store: Store, clock: FakeClock) -> None:
    stored = await store.schedules.add(DAILY, next_at=1000)
    clock.now += 5

    relabelled = await store.schedules.change(stored.id, {"label": "l"}, next_at=keep_due_time)
    assert relabelled == replace(stored, label="l", updated_at=clock.now)
    changed = await store.schedules.change(
        stored.id,
        {"agent_id": WRITER, "message": "m", "run_at": 7, "enabled": False, "timezone": "UTC"},
        next_at=lambda _, after: after.run_at,
    )

    assert changed == replace(
        relabelled, agent_id=WRITER, message="m", cron=None, run_at=7, enabled=False, timezone="UTC", next_at=7
    )
    assert await store.schedules.all() == (changed,)


async def test_a_refused_edit_changes_nothing(store: Store) -> None:
    stored = await store.schedules.add(DAILY, next_at=1000)
    seen = []

    def refuse(before: Schedule, after: Schedule) -> int | None:
        seen.append((before.cron, after.cron))
        raise InvalidInput("never comes")

    with pytest.raises(InvalidInput, match="never comes"):
        await store.schedules.change(stored.id, {"cron": "0 0 30 2 *"}, next_at=refuse)

    assert set(seen) == {("0 9 * * *", "0 0 30 2 *")}
    assert await store.schedules.all() == (stored,)


async def test_an_unknown_schedule_is_not_found(store: Store) -> None:
    stored = await store.schedules.add(DAILY, next_at=1000)
    await store.schedules.delete(stored.id)

    for call in (
        store.schedules.change(stored.id, {"label": "l"}, next_at=keep_due_time),
        store.schedules.delete(ScheduleId("sched_0")),
    ):
        with pytest.raises(NotFound, match="schedule list"):
            await call
    assert await store.schedules.all() == ()


async def test_enabled_schedules_are_due_from_their_next_time(store: Store) -> None:
    assert await store.schedules.next_due_at() is None
    daily = await store.schedules.add(DAILY, next_at=1000)
    once = await store.schedules.add(ONCE, next_at=500)
    await store.schedules.add(replace(DAILY, label="off", enabled=False), next_at=1)
    await store.schedules.add(replace(DAILY, label="never"), next_at=None)

    assert await store.schedules.next_due_at() == 500
    assert await store.schedules.due(499) == ()
    assert await store.schedules.due(500) == (once,)
    assert await store.schedules.due(1000) == (once, daily)


async def test_firing_sends_the_message_and_sets_the_next_time(store: Store) -> None:
    daily = await store.schedules.add(DAILY, next_at=1000)

    sent = await fire(store, daily, next_at=2000)

    assert sent is not None
    assert (sent.message, sent.channel) == ("report", "schedule")
    assert (await take(store)).primary.id == sent.id
    assert await find(store, daily.id) == replace(daily, next_at=2000, last_at=1000)
    assert await store.schedules.due(1999) == ()


async def test_a_schedule_is_disabled_after_its_last_time(store: Store) -> None:
    once = await store.schedules.add(ONCE, next_at=500)

    await fire(store, once, next_at=None)

    assert await store.schedules.next_due_at() is None
    fired = await find(store, once.id)
    assert (fired.enabled, fired.next_at, fired.last_at) == (False, None, 500)
    assert await fire(store, once, next_at=None) is None


async def test_a_due_time_without_a_message_is_skipped(store: Store) -> None:
    daily = await store.schedules.add(DAILY, next_at=1000)
    once = await store.schedules.add(ONCE, next_at=500)

    assert await fire(store, daily, None, next_at=2000) is None
    assert await fire(store, once, None, next_at=None) is None

    assert await store.schedules.all() == (replace(daily, next_at=2000), replace(once, enabled=False, next_at=None))
    assert await pending(store) == 0


async def test_message_and_next_time_are_made_from_the_stored_schedule(store: Store) -> None:
    seen = await store.schedules.add(DAILY, next_at=1000)
    await store.schedules.change(seen.id, {"message": "another text", "cron": "0 10 * * *"}, next_at=keep_due_time)

    sent = await store.schedules.fire(
        seen.id,
        1000,
        message=lambda stored: MESSAGE._replace(message=stored.message),
        next_at=lambda stored: 2000 if stored.cron == "0 10 * * *" else None,
    )

    assert sent is not None
    assert sent.message == "another text"
    assert (await find(store, seen.id)).next_at == 2000


async def test_concurrent_fires_of_a_due_time_send_one_message(store: Store) -> None:
    daily = await store.schedules.add(DAILY, next_at=1000)

    sent = await asyncio.gather(*(fire(store, daily, next_at=2000) for _ in range(5)))

    assert sum(message is not None for message in sent) == 1
    assert await pending(store) == 1
    assert await fire(store, await find(store, daily.id), next_at=3000) is not None


async def test_two_processes_send_each_due_time_once(store: Store, database: Path, clock: FakeClock) -> None:
    async with await Store.open(database, clock=clock, dice=random.Random(8)) as other:
        for due in range(1, 40):
            schedule = await store.schedules.add(replace(DAILY, label=f"s{due}"), next_at=due)
            both = (fire(one, schedule, next_at=1000) for one in (store, other))
            assert [message is None for message in await asyncio.gather(*both)].count(True) == 1

    assert await pending(store) == 39


async def test_a_disabled_or_deleted_schedule_does_not_fire(store: Store) -> None:
    daily = await store.schedules.add(DAILY, next_at=1000)
    once = await store.schedules.add(ONCE, next_at=500)
    await store.schedules.change(daily.id, {"enabled": False}, next_at=keep_due_time)
    await store.schedules.delete(once.id)

    assert await fire(store, daily, next_at=2000) is None
    assert await fire(store, once, next_at=None) is None
    assert await pending(store) == 0
    assert (await find(store, daily.id)).next_at == 1000


async def test_a_refused_message_keeps_the_due_time(store: Store) -> None:
    daily = await store.schedules.add(DAILY, next_at=1000)
    repeated = MESSAGE._replace(message_id=MessageId("m1"))
    await store.queue.enqueue(repeated)

    with pytest.raises(DuplicateMessage, match="m1"):
        await fire(store, daily, repeated, next_at=2000)
    with pytest.raises(InvalidInput):
        await fire(store, daily, MESSAGE._replace(channel="Not A Channel"), next_at=2000)
    with pytest.raises(InvalidInput, match="past"):
        await fire(store, daily, next_at=1000)

    assert await store.schedules.due(1000) == (daily,)
    assert await pending(store) == 1
