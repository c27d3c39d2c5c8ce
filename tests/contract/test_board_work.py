"""The message that a task sends when it moves into progress: once, in the same transaction."""

import asyncio
import random
import threading
from pathlib import Path

import pytest

from tests.contract.conftest import CODER
from tests.contract.test_board import BACKLOG, DONE, IN_PROGRESS, TODO, add, titles
from tests.support.clock import FakeClock
from tinyagi.domain.board import NewTask, Task
from tinyagi.domain.errors import DuplicateMessage, InvalidInput
from tinyagi.domain.ids import AgentId, MessageId
from tinyagi.domain.messages import NewMessage
from tinyagi.store.store import Store

MESSAGE = NewMessage("work on it", CODER)


def work(_: Task) -> NewMessage:
    return MESSAGE


async def pending(store: Store) -> int:
    return (await store.queue.depth()).pending


async def test_a_task_added_in_progress_sends_its_work(store: Store) -> None:
    await store.board.add_task(NewTask("x", status=IN_PROGRESS), work=work)
    await store.board.add_task(NewTask("y", status=TODO), work=work)

    assert await pending(store) == 1
    claim = await store.queue.claim(CODER)
    assert claim is not None
    assert claim.primary.message == "work on it"


async def test_work_is_sent_only_when_the_task_moves_into_progress(store: Store) -> None:
    (task,) = await add(store, "x")

    await store.board.change_task(task.id, {"status": IN_PROGRESS}, work=work)
    assert await pending(store) == 1
    await store.board.change_task(task.id, {"title": "y", "status": IN_PROGRESS}, work=work)
    await store.board.change_task(task.id, {"status": DONE}, work=work)
    assert await pending(store) == 1
    await store.board.change_task(task.id, {"status": IN_PROGRESS}, work=work)
    assert await pending(store) == 2


async def test_work_is_made_from_the_stored_task(store: Store) -> None:
    (task,) = await add(store, "x")
    await store.board.change_task(task.id, {"title": "y"})

    await store.board.change_task(
        task.id,
        {"status": IN_PROGRESS},
        work=lambda stored: MESSAGE._replace(message=f"{stored.title} {stored.status}"),
    )

    claim = await store.queue.claim(CODER)
    assert claim is not None
    assert claim.primary.message == "y in_progress"


async def test_concurrent_moves_of_a_task_send_its_work_once(store: Store) -> None:
    (task,) = await add(store, "x")

    moves = (store.board.change_task(task.id, {"status": IN_PROGRESS}, work=work) for _ in range(5))
    await asyncio.gather(*moves)

    assert await pending(store) == 1


async def test_a_change_by_another_process_waits_for_the_work_of_a_move(
    store: Store, database: Path, clock: FakeClock
) -> None:
    (task,) = await add(store, "x")
    deciding, decided = threading.Event(), threading.Event()

    def decide(_: Task) -> NewMessage:
        deciding.set()
        decided.wait()
        return MESSAGE

    async with await Store.open(database, clock=clock, dice=random.Random(8)) as other:
        first = asyncio.create_task(store.board.change_task(task.id, {"status": IN_PROGRESS}, work=decide))
        await asyncio.to_thread(deciding.wait)
        second = asyncio.create_task(other.board.change_task(task.id, {"status": IN_PROGRESS}, work=work))
        third = asyncio.create_task(other.board.change_task(task.id, {"title": "y"}))
        assert (await other.board.task(task.id)).status is BACKLOG
        decided.set()
        await asyncio.gather(first, second, third)

    stored = await store.board.task(task.id)
    assert (stored.title, stored.status) == ("y", IN_PROGRESS)
    assert await pending(store) == 1


async def test_a_task_does_not_move_when_its_work_is_refused(store: Store) -> None:
    (task,) = await add(store, "x")
    repeated = MESSAGE._replace(message_id=MessageId("m1"))
    await store.queue.enqueue(repeated)
    unknown = MESSAGE._replace(agent=AgentId("Not An Id"))

    with pytest.raises(DuplicateMessage, match="m1"):
        await store.board.change_task(task.id, {"status": IN_PROGRESS}, work=lambda _: repeated)
    with pytest.raises(DuplicateMessage, match="m1"):
        await store.board.add_task(NewTask("y", status=IN_PROGRESS), work=lambda _: repeated)
    with pytest.raises(DuplicateMessage, match="m1"):
        await store.board.reorder({IN_PROGRESS: [task.id]}, work=lambda _: repeated)
    with pytest.raises(InvalidInput, match="not an agent id"):
        await store.board.change_task(task.id, {"status": IN_PROGRESS}, work=lambda _: unknown)

    assert await store.board.tasks() == (task,)
    assert await pending(store) == 1


async def test_reordering_sends_the_work_of_tasks_that_move_into_progress(store: Store) -> None:
    (there,) = await add(store, "there", status=IN_PROGRESS)
    moves, silent = await add(store, "moves", "silent")

    def message_of(task: Task) -> NewMessage | None:
        return None if task.title == "silent" else MESSAGE._replace(message=task.title)

    await store.board.reorder({IN_PROGRESS: [silent.id, moves.id, there.id]}, work=message_of)

    assert await titles(store, IN_PROGRESS) == ["silent", "moves", "there"]
    claim = await store.queue.claim(CODER)
    assert claim is not None
    assert claim.primary.message == "moves"
    assert await pending(store) == 0
