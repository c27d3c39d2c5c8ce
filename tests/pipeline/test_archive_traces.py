"""Conversations from the lake equal those of the store before it pruned them."""

import random
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.contract.conftest import CODER, DEV, TESTER, WRITER
from tests.contract.test_claim import STUMBLE, say, take
from tests.contract.test_traces import USAGE
from tests.support.clock import FakeClock
from tests.support.lakes import write_lake
from tests.support.log import read_all
from tests.support.silver import silver_rows
from tinyagi.domain.events import TeamChainStart
from tinyagi.domain.ids import AgentId, ConversationId, MessageId
from tinyagi.domain.limits import Retention
from tinyagi.domain.messages import Batching, NewMessage
from tinyagi.domain.retry import Failure, FailureKind, RetryPolicy
from tinyagi.domain.runs import Handoff, Outcome, RoomPost
from tinyagi.domain.traces import TracedMessage
from tinyagi.pipeline.serve.archive import LakeArchive
from tinyagi.store.history import ReadThroughTraces
from tinyagi.store.store import Store
from tinyagi.system.processes import ProcessIdentity

Traced = dict[ConversationId, tuple[TracedMessage, ...]]
CHAIN = TeamChainStart(DEV, (CODER, TESTER), CODER)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with await Store.open(tmp_path / "tinyagi.db", clock=clock, dice=random.Random(7)) as opened:
        yield opened


@pytest.fixture
def archive(tmp_path: Path) -> LakeArchive:
    return LakeArchive(tmp_path / "lake")


async def archive_all(store: Store, tmp_path: Path) -> None:
    events = await read_all(store.events)
    write_lake(tmp_path / "lake", silver_rows(events), through_id=events[-1].id)
    await store.events.acknowledge("lake", events[-1].id)


async def traces_of(store: Store) -> Traced:
    events = await read_all(store.events)
    names = {ConversationId(event.conversation_id) for event in events if event.conversation_id}
    found = {name: await store.traces.conversation(name) for name in sorted(names)}
    return {name: messages for name, messages in found.items() if messages}


async def busy_day(store: Store, clock: FakeClock) -> None:
    """Everything that can happen to a message, except failures of a shared run."""
    # Parts of one message; a hand-off that gives the conversation to a team, and one that dies.
    await store.queue.enqueue_parts([NewMessage("a", CODER, files=("x.txt",)), NewMessage("b", WRITER)])
    clock.now += 250
    first = await take(store)
    clock.now += 400
    handoffs = (Handoff(TESTER, "test", DEV), Handoff(WRITER, "write", DEV))
    await store.queue.complete(first, Outcome("on", handoffs=handoffs, usage=USAGE, chain=CHAIN))
    await store.queue.fail(await take(store, TESTER), STUMBLE, policy=RetryPolicy(attempts=1))
    await store.queue.complete(await take(store, WRITER), Outcome(""))
    # One message with every outcome except an answer.
    number = await say(store, "patience", priority=1)
    await store.queue.release(await take(store), reason="shutdown")
    await store.queue.fail(await take(store), Failure(FailureKind.MESSAGE, "exit code 1", usage=USAGE))
    clock.advance(timedelta(hours=1))
    await store.queue.stop(await take(store), by="Ada")
    await store.queue.retry_dead(number, text="patience again")
    await store.queue.fail(await take(store), Failure(FailureKind.UNAVAILABLE, "429"))
    clock.advance(timedelta(hours=1))
    await store.queue.complete(await take(store), Outcome("at last", usage=USAGE))
    # Two conversations in one run.
    for text in ("one", "two"):
        await say(store, text, channel="web", sender="Ada", sender_id="7")
        clock.now += 5
    await store.queue.complete(await take(store), Outcome("both", usage=USAGE))
    # A room post; abandoned, deleted, running and waiting messages.
    await store.queue.post(RoomPost(DEV, "line", (CODER, TESTER), "a line"), sender="ada")
    await store.queue.complete(await take(store), Outcome("heard"))
    await store.queue.enqueue_parts([NewMessage("never", AgentId("gone")), NewMessage("kept", AgentId("gone"))])
    await store.queue.abandon(AgentId("gone"), reason="removed")
    await store.queue.delete_dead((await store.queue.dead(agent=AgentId("gone")))[0].id, reason="no use")
    await say(store, "running")
    await take(store)
    await say(store, "waiting")


async def test_a_conversation_of_the_lake_equals_that_of_the_store(
    store: Store, clock: FakeClock, archive: LakeArchive, tmp_path: Path
) -> None:
    await busy_day(store, clock)
    expected = await traces_of(store)
    await archive_all(store, tmp_path)

    archived = {name: await archive.conversation(name) for name in expected}

    assert archived == expected
    outcomes = {run.outcome for messages in expected.values() for one in messages for run in one.attempts}
    assert outcomes == {
        *("running", "chain_step_done", "message_failed", "message_dead", "message_stopped", "message_released"),
    }


async def test_traces_are_the_same_after_pruning(
    store: Store, clock: FakeClock, archive: LakeArchive, tmp_path: Path
) -> None:
    await busy_day(store, clock)
    expected, listed = await traces_of(store), await store.traces.recent(limit=100)
    await archive_all(store, tmp_path)
    clock.advance(timedelta(days=8))
    pruned = await store.queue.prune(Retention())
    assert pruned.messages > 5
    assert pruned.events > 20
    assert await store.traces.recent(limit=100) != listed

    through = ReadThroughTraces(store.traces, archive)

    assert {name: await through.conversation(name) for name in expected} == expected
    assert await through.recent(limit=100) == listed


async def test_a_recovered_claim_is_archived(
    tmp_path: Path, store: Store, clock: FakeClock, archive: LakeArchive
) -> None:
    gone = ProcessIdentity("here", "boot", 1, 1.0)
    async with await Store.open(tmp_path / "tinyagi.db", clock=clock, owner=gone, alive=lambda _: True) as holder:
        await say(store, "x")
        claim = await take(holder)
        clock.now += 40
    async with await Store.open(tmp_path / "tinyagi.db", clock=clock, alive=lambda _: False) as other:
        assert await other.queue.recover() == 1
    await archive_all(store, tmp_path)

    name = claim.primary.conversation_id
    (archived,) = await archive.conversation(name)

    assert (archived,) == await store.traces.conversation(name)
    assert [run.outcome for run in archived.attempts] == ["message_recovered"]


async def test_a_message_that_shared_a_failed_run_has_the_failure(
    store: Store, clock: FakeClock, archive: LakeArchive, tmp_path: Path
) -> None:
    await say(store, "led")
    clock.advance(timedelta(days=1))
    await say(store, "came along", sender="Grace")
    shared = await take(store, batching=Batching.ALL)
    clock.now += 30
    await store.queue.fail(shared, STUMBLE)
    clock.advance(timedelta(hours=1))
    while claim := await store.queue.claim(CODER):
        await store.queue.complete(claim, Outcome("alone"))
    company = shared.messages[1]
    await archive_all(store, tmp_path)

    (archived,) = await archive.conversation(company.conversation_id)
    (hot,) = await store.traces.conversation(company.conversation_id)

    assert [run.outcome for run in archived.attempts] == ["message_failed", "chain_step_done"]
    assert archived.attempts[1:] == hot.attempts[1:]
    # The store only knows the end of the failed run; the lake also knows its start.
    failed, by_its_end = archived.attempts[0], hot.attempts[0]
    assert (failed.claim_id, failed.reason, failed.ended_at) == (shared.id, STUMBLE.reason, by_its_end.ended_at)
    assert failed.started_at == shared.started_at == by_its_end.started_at - 30
    assert (archived.message, archived.answer) == (hot.message, "alone")


async def test_attempts_are_ordered_by_their_end(store: Store, archive: LakeArchive, tmp_path: Path) -> None:
    await say(store, "x", message_id=MessageId("m"))
    for reason in ("first", "second", "third"):
        await store.queue.release(await take(store), reason=reason)
    await take(store)
    rows = silver_rows(await read_all(store.events))
    for number, run in enumerate(rows["silver.runs"]):
        run["claim_id"] = f"claim_{9 - number}"
    write_lake(tmp_path / "lake", rows)

    (traced,) = await archive.conversation(ConversationId("m"))

    assert [run.reason for run in traced.attempts] == ["first", "second", "third", None]


async def test_a_team_without_a_hand_off_is_archived(store: Store, archive: LakeArchive, tmp_path: Path) -> None:
    await say(store, "x")
    claim = await take(store)
    await store.queue.complete(claim, Outcome("nothing handed on", chain=CHAIN))
    await archive_all(store, tmp_path)

    (traced,) = await archive.conversation(claim.primary.conversation_id)

    assert traced.message.conversation_team == DEV
    assert (traced,) == await store.traces.conversation(claim.primary.conversation_id)


async def test_a_reused_conversation_id_gives_the_newest_conversation(
    store: Store, clock: FakeClock, archive: LakeArchive, tmp_path: Path
) -> None:
    name = ConversationId("again")
    began: list[int] = []
    for text in ("old", "new"):
        await say(store, text, message_id=MessageId(name))
        claim = await take(store)
        began.append(claim.primary.conversation_started_at)
        await store.queue.complete(claim, Outcome(f"{text} answer", handoffs=(Handoff(TESTER, f"{text} work"),)))
        await store.queue.complete(await take(store, TESTER), Outcome("done"))
        for response in await store.responses.recent():
            await store.responses.ack(response.id)
        clock.advance(timedelta(days=2))
        await store.queue.prune(Retention())
    old, new = began
    await archive_all(store, tmp_path)

    assert [one.message.message for one in await archive.conversation(name)] == ["new", "new work"]
    assert [one.message.message for one in await archive.conversation(name, started_at=old)] == [
        "old",
        "old work",
    ]
    assert await archive.conversation(name, started_at=old + 1) == ()
    assert [one.started_at for one in await archive.recent()] == [new, old]


async def test_erased_texts_are_empty(store: Store, clock: FakeClock, archive: LakeArchive, tmp_path: Path) -> None:
    await say(store, "secret", message_id=MessageId("m"))
    await store.queue.complete(await take(store), Outcome("secret too"))
    rows = silver_rows(await read_all(store.events))
    for table, column in (
        ("silver.messages", "message"),
        ("silver.messages", "answer"),
        ("silver.agent_messages", "content"),
    ):
        for row in rows[table]:
            row[column] = None
    write_lake(tmp_path / "lake", rows)

    (traced,) = await archive.conversation(ConversationId("m"))

    assert (traced.message.message, traced.answer) == ("", "")
    assert [line.content for line in await archive.of_agent(CODER)] == ["", ""]
