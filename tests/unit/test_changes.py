"""Wake-ups: every waiter gets each one."""

import asyncio
from typing import Final

import pytest

from tinyagi.system.changes import Changes

MANY: Final = 50


async def let_tasks_reach_their_wait() -> None:
    """One turn of the loop: every task that was started has reached its first wait."""
    await asyncio.sleep(0)


async def test_every_change_counts() -> None:
    changes = Changes()
    before = changes.version
    changes.notify()
    changes.notify()
    assert changes.version == before + 2


async def test_a_change_between_reading_the_version_and_waiting_is_not_lost() -> None:
    changes = Changes()
    seen = changes.version
    changes.notify()
    assert await asyncio.wait_for(changes.beyond(seen), timeout=60) == seen + 1


async def test_a_waiter_sleeps_until_something_changes() -> None:
    changes = Changes()
    changes.notify()
    waiter = asyncio.create_task(changes.beyond(changes.version))
    await let_tasks_reach_their_wait()
    assert not waiter.done()
    changes.notify()
    assert await waiter == 2


async def test_several_changes_wake_a_waiter_once() -> None:
    changes = Changes()
    waiter = asyncio.create_task(changes.beyond(changes.version))
    await let_tasks_reach_their_wait()
    changes.notify()
    changes.notify()
    assert await waiter == 2


async def test_a_waiter_sleeps_until_its_version_is_reached() -> None:
    changes = Changes()
    waiter = asyncio.create_task(changes.beyond(1))
    await let_tasks_reach_their_wait()
    changes.notify()
    for _ in range(10):
        await let_tasks_reach_their_wait()
    assert not waiter.done()
    changes.notify()
    assert await waiter == 2


async def test_all_waiters_wake() -> None:
    changes = Changes()
    waiters = [asyncio.create_task(changes.beyond(changes.version)) for _ in range(MANY)]
    await let_tasks_reach_their_wait()
    changes.notify()
    assert await asyncio.gather(*waiters) == [1] * MANY


async def test_a_waiter_can_wait_again_after_each_change() -> None:
    changes = Changes()
    for version in range(1, 4):
        waiter = asyncio.create_task(changes.beyond(changes.version))
        await let_tasks_reach_their_wait()
        changes.notify()
        assert await waiter == version


async def test_a_cancelled_waiter_does_not_disturb_the_others() -> None:
    changes = Changes()
    gone, *waiters = [asyncio.create_task(changes.beyond(changes.version)) for _ in range(MANY)]
    await let_tasks_reach_their_wait()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert not any(waiter.done() for waiter in waiters)
    changes.notify()
    assert await asyncio.gather(*waiters) == [1] * (MANY - 1)


async def test_a_change_after_the_only_waiter_was_cancelled_still_counts() -> None:
    changes = Changes()
    gone = asyncio.create_task(changes.beyond(changes.version))
    await let_tasks_reach_their_wait()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    changes.notify()
    assert await asyncio.wait_for(changes.beyond(0), timeout=60) == 1


async def test_a_listener_is_called_until_it_is_removed() -> None:
    changes, heard = Changes(), list[int]()
    stop = changes.call(lambda: heard.append(changes.version))

    changes.notify()
    changes.notify()
    stop()
    changes.notify()

    assert heard == [1, 2]
