"""Group commit: calls written together, single failures, and cancelled callers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from tests.contract.conftest import CODER, TESTER, WRITER
from tests.support.clock import FakeClock
from tests.support.log import read_all, types_of
from tinyagi.domain.errors import StoreClosed
from tinyagi.domain.events import ProcessorStart
from tinyagi.domain.ids import AgentId, MessageId
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.runs import Outcome
from tinyagi.store.enqueue import EnqueueRequest, enqueue
from tinyagi.store.store import Store
from tinyagi.store.transaction import Transaction


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with await Store.open(tmp_path / "tinyagi.db", clock=FakeClock()) as opened:
        yield opened


async def test_concurrent_calls_are_written_together(store: Store) -> None:
    sizes: list[int] = []

    def counted(tx: Transaction, requests: Sequence[EnqueueRequest]) -> object:
        sizes.append(len(requests))
        return enqueue(tx, requests)

    await asyncio.gather(
        *(store._writer.write(counted, EnqueueRequest((NewMessage(str(n), CODER),))) for n in range(50))  # type: ignore[arg-type]
    )

    assert sizes == [50]
    assert (await store.queue.depth()).pending == 50


async def test_plain_operations_of_one_turn_run_in_one_transaction_in_their_order(store: Store) -> None:
    transactions: list[Transaction] = []

    def first(tx: Transaction) -> int:
        transactions.append(tx)
        return tx.next_id("tasks")

    def second(tx: Transaction, name: str, *, times: int) -> str:
        transactions.append(tx)
        return f"{name * times}{tx.next_id('tasks')}"

    numbers = await asyncio.gather(
        store._writer.run(first), store._writer.run(second, "x", times=2), store._writer.run(first)
    )

    assert list(numbers) == [1, "xx2", 3]
    assert len(set(map(id, transactions))) == 1


async def test_a_failing_operation_does_not_fail_its_neighbours(store: Store) -> None:
    def faulty(tx: Transaction) -> None:
        tx.record_alone(ProcessorStart("never stored"))
        raise ZeroDivisionError

    results = await asyncio.gather(
        store.queue.enqueue(NewMessage("before", CODER)),
        store._writer.run(faulty),
        store.queue.enqueue(NewMessage("after", CODER)),
        return_exceptions=True,
    )

    assert isinstance(results[1], ZeroDivisionError)
    assert (await store.queue.depth()).pending == 2
    assert await types_of(store.events) == ["message_received", "message_received"]


async def test_a_statement_refused_by_sqlite_is_reported_with_the_reason(
    store: Store,
) -> None:
    def execute(tx: Transaction, statement: str) -> None:
        tx.connection.execute(statement).fetchall()

    results = await asyncio.gather(
        store.queue.enqueue(NewMessage("before", CODER)),
        store._writer.run(execute, "INSERT INTO lanes (agent) VALUES ('x'), ('x')"),
        store._writer.run(execute, "INSERT INTO nowhere VALUES (1)"),
        store._writer.run(execute, "SELECT zeroblob(3000000000)"),
        return_exceptions=True,
    )

    assert [type(result).__name__ for result in results[1:]] == ["StatementRefused"] * 3
    assert "UNIQUE constraint failed: lanes.agent" in str(results[1])
    assert "no such table: nowhere" in str(results[2])
    assert "too big" in str(results[3])
    assert (await store.queue.depth()).pending == 1


async def test_a_refused_operation_is_rolled_back(store: Store) -> None:
    await store.queue.enqueue(NewMessage("there", CODER, message_id=MessageId("taken")))

    many = [NewMessage(str(n), CODER) for n in range(10)]
    results = await asyncio.gather(
        store.queue.enqueue_many([*many, NewMessage("x", CODER, message_id=MessageId("taken"))]),
        store.queue.enqueue(NewMessage("fine", WRITER)),
        return_exceptions=True,
    )

    assert isinstance(results[0], Exception)
    assert [event.agent for event in await read_all(store.events)] == [CODER, WRITER]
    assert len(await store.history.of_agent()) == 2
    assert [event.id for event in await read_all(store.events)] == [1, 2]


async def test_a_generated_id_that_exists_is_generated_again(store: Store) -> None:
    class Stuck:
        """An id source that repeats the first id."""

        def __init__(self) -> None:
            self.given = ["api_aaaaaaaa", "api_aaaaaaaa", "api_aaaaaaaa", "api_bbbbbbbb"]

        def new(self, prefix: str, now_ms: int) -> str:
            return self.given.pop(0)

        def jump(self, start: int) -> None:
            """Does nothing."""

    object.__setattr__(store._writer._context, "ids", Stuck())

    first = await store.queue.enqueue(NewMessage("one", CODER))
    second = await store.queue.enqueue(NewMessage("two", CODER))

    assert [first.message_id, second.message_id] == ["api_aaaaaaaa", "api_bbbbbbbb"]


async def test_an_empty_claim_notifies_no_waiter(store: Store) -> None:
    await store.queue.enqueue(NewMessage("x", CODER))
    seen = store.changes.version

    for _ in range(200):
        assert await store.queue.claim(WRITER) is None

    # The watcher may still notify of the enqueue, once.
    assert store.changes.version <= seen + 2
    assert await store.queue.claim(CODER) is not None
    assert store.changes.version > seen


async def test_a_cancelled_enqueue_is_still_written(store: Store) -> None:
    task = asyncio.create_task(store.queue.enqueue(NewMessage("x", CODER)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await store.queue.enqueue(NewMessage("y", CODER))

    assert (await store.queue.depth()).pending == 2


async def check_released(store: Store, agent: AgentId) -> None:
    while "message_released" not in await types_of(store.events):
        seen = store.changes.version
        await asyncio.wait_for(store.changes.beyond(seen), 60)
    assert (await store.queue.depth()).processing == 0
    claim = await store.queue.claim(agent)
    assert claim is not None
    assert claim.attempt == 1


async def test_a_claim_cancelled_before_the_write_is_released(store: Store) -> None:
    await store.queue.enqueue(NewMessage("x", CODER))
    task = asyncio.create_task(store.queue.claim(CODER))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    await check_released(store, CODER)


async def test_a_claim_cancelled_after_the_write_is_released(store: Store) -> None:
    await store.queue.enqueue(NewMessage("x", TESTER))
    task = asyncio.create_task(store.queue.claim(TESTER))
    resolve_futures = store._writer._resolve_futures

    def resolve_then_cancel(results: list[tuple[object, object]], changed: bool) -> None:
        resolve_futures(results, changed)  # type: ignore[arg-type]
        task.cancel()

    store._writer._resolve_futures = resolve_then_cancel  # type: ignore[method-assign, assignment]
    with pytest.raises(asyncio.CancelledError):
        await task
    del store._writer._resolve_futures

    await check_released(store, TESTER)


async def test_a_cancelled_complete_and_claim_completes_and_releases_the_next_claim(store: Store) -> None:
    for text in ("one", "two"):
        await store.queue.enqueue(NewMessage(text, CODER))
    claim = await store.queue.claim(CODER)
    assert claim is not None
    task = asyncio.create_task(store.queue.complete_and_claim(claim, Outcome("done")))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task

    await check_released(store, CODER)
    assert (await store.queue.depth()).completed == 1


async def test_a_claim_cancelled_while_the_store_closes_is_released(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    first = await Store.open(path)
    await first.queue.enqueue(NewMessage("x", CODER))
    task = asyncio.create_task(first.queue.claim(CODER))
    await asyncio.sleep(0)
    task.cancel()

    await first.close()

    async with await Store.open(path) as second:
        assert (await second.queue.depth()).processing == 0
        assert (await second.queue.depth()).pending == 1


async def test_closing_finishes_waiting_writes_and_refuses_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    store = await Store.open(path)
    waiting = asyncio.gather(*(store.queue.enqueue(NewMessage(str(n), CODER)) for n in range(20)))
    await asyncio.sleep(0)

    await store.close()

    assert len(await waiting) == 20
    with pytest.raises(StoreClosed):
        await store.queue.enqueue(NewMessage("late", CODER))
    with pytest.raises(StoreClosed):
        await store.queue.depth()
    assert not path.with_name("other.db-wal").exists()


async def test_the_write_ahead_log_stays_small_under_load(store: Store, tmp_path: Path) -> None:
    log = tmp_path / "tinyagi.db-wal"
    text = "x" * 4000
    for _ in range(40):
        await asyncio.gather(*(store.queue.enqueue(NewMessage(text, CODER)) for _ in range(100)))

    assert (await store.queue.depth()).pending == 4000
    assert log.stat().st_size < 64 * 1024 * 1024


async def test_a_backlog_beyond_the_parameter_limit_is_claimed_in_order(store: Store) -> None:
    batch = [NewMessage(str(n), CODER) for n in range(40_000)]
    await store.queue.enqueue_many(batch)

    for expected in ("0", "1", "2"):
        claim = await store.queue.claim(CODER)
        assert claim is not None
        assert claim.primary.message == expected
        await store.queue.complete(claim, Outcome("done"))

    assert (await store.queue.depth()).pending == 39_997
