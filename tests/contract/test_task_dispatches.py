"""The board's dispatch of a task and a client's message about it count as one for a minute, in either order."""

import asyncio

from tests.contract.conftest import CODER
from tests.contract.test_board import DONE, IN_PROGRESS, add
from tests.contract.test_board_work import pending, work
from tests.support.clock import FakeClock
from tinyagi.domain.messages import NewMessage
from tinyagi.store.store import Store

MINUTE = 60_000
ABOUT_TASK = NewMessage("@coder build it", CODER, channel="web")


async def test_a_message_a_minute_after_the_move_is_stored(store: Store, clock: FakeClock) -> None:
    (task,) = await add(store, "build it")
    await store.board.change_task(task.id, {"status": IN_PROGRESS}, work=work)
    clock.now += MINUTE

    message = await store.queue.enqueue_for_task(ABOUT_TASK, task.id)

    assert message.channel == "web"
    assert await pending(store) == 2


async def test_a_move_a_minute_after_the_message_dispatches_the_task(store: Store, clock: FakeClock) -> None:
    (task,) = await add(store, "build it")
    await store.queue.enqueue_for_task(ABOUT_TASK, task.id)
    clock.now += MINUTE

    await store.board.change_task(task.id, {"status": IN_PROGRESS}, work=work)

    assert await pending(store) == 2


async def test_a_move_and_a_message_at_the_same_time_make_one_dispatch(store: Store) -> None:
    (task,) = await add(store, "build it")

    await asyncio.gather(
        store.board.change_task(task.id, {"status": IN_PROGRESS}, work=work),
        store.queue.enqueue_for_task(ABOUT_TASK, task.id),
    )

    assert await pending(store) == 1


async def test_a_message_about_a_task_in_progress_does_not_stop_its_next_dispatch(store: Store) -> None:
    (task,) = await add(store, "build it", status=IN_PROGRESS)
    await store.queue.enqueue_for_task(ABOUT_TASK, task.id)
    await store.board.change_task(task.id, {"status": DONE}, work=work)

    await store.board.change_task(task.id, {"status": IN_PROGRESS}, work=work)

    assert await pending(store) == 2


async def test_deleting_a_task_deletes_its_dispatch(store: Store) -> None:
    (task,) = await add(store, "build it")
    await store.board.change_task(task.id, {"status": IN_PROGRESS}, work=work)
    await store.board.delete_task(task.id)

    await store.queue.enqueue_for_task(ABOUT_TASK, task.id)

    assert await pending(store) == 2


async def test_a_different_message_about_a_task_does_not_replace_its_dispatch(store: Store) -> None:
    (task,) = await add(store, "build it")
    before = await store.queue.enqueue_for_task(NewMessage("@coder build it in blue", CODER, channel="web"), task.id)
    await store.board.change_task(task.id, {"status": IN_PROGRESS}, work=work)

    after = await store.queue.enqueue_for_task(NewMessage("@coder not in red", CODER, channel="web"), task.id)
    again = await store.queue.enqueue_for_task(ABOUT_TASK, task.id)

    assert (before.message, after.message) == ("@coder build it in blue", "@coder not in red")
    assert again.channel != "web"
    assert await pending(store) == 3
