"""Traces: the messages and runs of a conversation, and the most recent conversations."""

from datetime import timedelta

from tests.contract.conftest import CODER, DEV, TESTER, WRITER
from tests.contract.test_claim import STUMBLE, say, take
from tests.support.clock import FakeClock
from tinyagi.domain.ids import ConversationId
from tinyagi.domain.limits import Retention, Usage
from tinyagi.domain.messages import Batching, NewMessage, Status
from tinyagi.domain.retry import Failure, FailureKind, RetryPolicy
from tinyagi.domain.runs import Claim, Handoff, Outcome, RoomPost
from tinyagi.domain.traces import Attempt, TracedMessage
from tinyagi.store.store import Store

USAGE = Usage(100, 20, 3, 0.5, "anthropic", "sonnet")


async def trace_of(store: Store, claim: Claim) -> tuple[TracedMessage, ...]:
    return await store.traces.conversation(claim.primary.conversation_id)


def outcomes(traced: TracedMessage) -> list[str]:
    return [attempt.outcome for attempt in traced.attempts]


async def test_an_unknown_conversation_has_an_empty_trace(store: Store) -> None:
    await say(store, "x")

    assert await store.traces.conversation(ConversationId("nothing")) == ()


async def test_a_message_that_never_ran_has_no_attempt(store: Store) -> None:
    stored = await store.queue.enqueue(NewMessage("x", CODER))

    (traced,) = await store.traces.conversation(stored.conversation_id)

    assert traced == TracedMessage(stored, (), None)
    assert traced.message.status is Status.PENDING


async def test_an_attempt_is_traced_from_claim_to_answer(store: Store, clock: FakeClock) -> None:
    await say(store, "question")
    clock.now += 250
    claim = await take(store)

    (running,) = await trace_of(store, claim)
    assert running.attempts == (Attempt(claim.id, 1, clock.now, 250, None, "running", None, None),)
    assert running.answer is None
    clock.now += 400
    await store.queue.complete(claim, Outcome("answer", usage=USAGE))

    (done,) = await trace_of(store, claim)
    assert done.attempts == (Attempt(claim.id, 1, clock.now - 400, 250, clock.now, "chain_step_done", None, USAGE),)
    assert done.answer == "answer"


async def test_every_attempt_is_traced_with_its_outcome(store: Store, clock: FakeClock) -> None:
    number = await say(store, "question")
    await store.queue.release(await take(store), reason="shutdown")
    await store.queue.fail(await take(store), Failure(FailureKind.MESSAGE, "exit code 1", usage=USAGE))
    clock.advance(timedelta(hours=1))
    await store.queue.stop(await take(store), by="Ada")
    await store.queue.retry_dead(number)
    claim = await take(store)
    await store.queue.fail(claim, STUMBLE, policy=RetryPolicy(attempts=1))

    (traced,) = await trace_of(store, claim)

    assert [(attempt.outcome, attempt.number, attempt.reason) for attempt in traced.attempts] == [
        ("message_released", 1, "shutdown"),
        ("message_failed", 1, "exit code 1"),
        ("message_stopped", 2, "stopped by Ada"),
        ("message_dead", 1, "exit code 1"),
    ]
    assert [attempt.usage for attempt in traced.attempts] == [None, USAGE, None, None]
    assert (traced.message.status, traced.answer) == (Status.DEAD, None)


async def test_a_trace_includes_hand_offs(store: Store) -> None:
    await say(store, "another conversation", WRITER)
    await say(store, "go")
    first = await take(store)
    await store.queue.complete(first, Outcome("on", handoffs=(Handoff(TESTER, "test", DEV),)))
    second = await take(store, TESTER)
    await store.queue.complete(second, Outcome("tested"))

    traced = await trace_of(store, second)

    assert [(one.message.message, one.message.hop, one.answer) for one in traced] == [
        ("go", 0, "on"),
        ("test", 1, "tested"),
    ]
    assert [outcomes(one) for one in traced] == [["chain_step_done"], ["chain_step_done"]]
    assert traced[1].message.parent_message_id == traced[0].message.message_id


async def test_the_parts_of_a_message_are_one_conversation(store: Store) -> None:
    root, *_ = await store.queue.enqueue_parts([NewMessage("a", CODER), NewMessage("b", WRITER)])
    await store.queue.complete(await take(store, WRITER), Outcome("of the second"))

    traced = await store.traces.conversation(root.conversation_id)

    assert [(one.message.message, one.answer) for one in traced] == [("a", None), ("b", "of the second")]


async def test_a_message_that_shared_a_run_is_traced_with_that_run(store: Store, clock: FakeClock) -> None:
    for text in ("one", "two"):
        await say(store, text, channel="web", sender="Ada")
    claim = await take(store)
    primary, company = claim.messages
    assert primary.conversation_id != company.conversation_id

    (running,) = await store.traces.conversation(company.conversation_id)
    assert outcomes(running) == ["running"]
    clock.now += 30
    await store.queue.complete(claim, Outcome("both", usage=USAGE))

    (traced,) = await store.traces.conversation(company.conversation_id)
    assert traced.attempts == (Attempt(claim.id, 1, clock.now - 30, 0, clock.now, "chain_step_done", None, None),)
    assert (traced.answer, traced.message.answered_by) == (None, primary.message_id)
    (traced,) = await store.traces.conversation(primary.conversation_id)
    assert traced.attempts[0].usage == USAGE


async def test_a_message_that_shared_a_failed_run_is_traced_with_the_failure(store: Store, clock: FakeClock) -> None:
    await say(store, "one")
    await say(store, "two", sender="Grace")
    claim = await take(store, batching=Batching.ALL)
    clock.now += 30
    await store.queue.fail(claim, STUMBLE)

    (traced,) = await store.traces.conversation(claim.messages[1].conversation_id)

    assert [(attempt.outcome, attempt.reason, attempt.ended_at) for attempt in traced.attempts] == [
        ("message_failed", STUMBLE.reason, clock.now)
    ]


async def test_an_abandoned_message_has_no_attempt(store: Store) -> None:
    stored = await store.queue.enqueue(NewMessage("x", CODER))
    await store.queue.abandon(CODER, reason="removed")

    (traced,) = await store.traces.conversation(stored.conversation_id)

    assert (traced.attempts, traced.message.last_error) == ((), "removed")


async def test_an_attempt_whose_start_is_pruned_is_traced_from_its_end(store: Store, clock: FakeClock) -> None:
    await say(store, "x")
    claim = await take(store)
    clock.advance(timedelta(days=8))
    await store.queue.complete(claim, Outcome("late"))
    await store.queue.prune(Retention())

    (traced,) = await trace_of(store, claim)

    (attempt,) = traced.attempts
    assert (attempt.started_at, attempt.ended_at) == (claim.started_at, clock.now)
    assert (attempt.number, attempt.outcome, traced.answer) == (1, "chain_step_done", "late")


async def test_conversations_are_listed_newest_first(store: Store) -> None:
    assert await store.traces.recent() == ()
    for text in ("one", "two", "three"):
        await say(store, text)
    await store.queue.complete(await take(store), Outcome("on", handoffs=(Handoff(TESTER, "test"),)))

    assert [summary.message for summary in await store.traces.recent()] == ["three", "two", "one"]
    assert [summary.message for summary in await store.traces.recent(limit=2)] == ["three", "two"]


async def test_a_summary_counts_messages_hops_and_usage(store: Store, clock: FakeClock) -> None:
    started = clock.now
    await say(store, "go", sender="Ada", channel="web", team=DEV)
    first = await take(store)
    handoffs = (Handoff(TESTER, "test", DEV), Handoff(WRITER, "write", DEV))
    await store.queue.complete(first, Outcome("on", handoffs=handoffs, usage=USAGE))
    clock.now += 70
    failure = Failure(FailureKind.MESSAGE, "exit code 1", usage=Usage(output_tokens=7, cost=0.25))
    await store.queue.fail(await take(store, TESTER), failure, policy=RetryPolicy(attempts=1))

    (summary,) = await store.traces.recent()

    assert (summary.id, summary.team) == (first.primary.message_id, DEV)
    assert (summary.channel, summary.sender, summary.agent, summary.message) == ("web", "Ada", CODER, "go")
    assert (summary.open, summary.total, summary.dead, summary.hops) == (1, 3, 1, 1)
    assert (summary.tokens, summary.cost) == (130, 0.75)
    assert (summary.started_at, summary.updated_at) == (started, clock.now)


async def test_a_summary_counts_a_dead_message(store: Store) -> None:
    await say(store, "x")
    await store.queue.abandon(CODER, reason="removed")

    (summary,) = await store.traces.recent()

    assert (summary.open, summary.total, summary.dead, summary.hops, summary.tokens, summary.cost) == (
        0,
        1,
        1,
        0,
        0,
        0.0,
    )


async def test_a_room_post_is_one_conversation(store: Store) -> None:
    await store.queue.post(RoomPost(DEV, "line", (CODER, TESTER), "a line"), sender="ada")

    (summary,) = await store.traces.recent()

    assert (summary.team, summary.total) == (DEV, 2)
