import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from tests.contract.conftest import CODER, DEV, TESTER, WRITER
from tests.contract.test_claim import STUMBLE, run_all, say, take
from tests.support.clock import FakeClock
from tests.support.log import read_all, types_of
from tinyagi.domain.errors import ClaimLost, InvalidInput, NotFound
from tinyagi.domain.limits import Usage
from tinyagi.domain.messages import ROOM_CHANNEL, ROOM_PRIORITY, NewMessage, Status
from tinyagi.domain.responses import Role
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import Claim, Handoff, Outcome, RoomPost
from tinyagi.store.store import Store

UNAVAILABLE = Failure(FailureKind.UNAVAILABLE, "429 too many requests")


async def test_completing_stores_answer_history_and_events_together(store: Store, clock: FakeClock) -> None:
    number = await say(store, "question", sender="Ada", sender_id="7")
    claim = await take(store)
    clock.now += 400

    handed_on = await store.queue.complete(
        claim,
        Outcome("raw answer", response="answer", files=("f.md",), metadata={"parseMode": "md"}, usage=Usage(3, 4)),
    )

    assert handed_on == ()
    done = await store.queue.message(number)
    assert done is not None
    assert (done.status, done.claim_id, done.answered_by) == (Status.COMPLETED, None, claim.primary.message_id)
    (response,) = await store.responses.pending("api")
    assert (response.message, response.original_message, response.sender_id) == ("answer", "question", "7")
    assert (response.files, response.metadata, response.seq) == ('["f.md"]', '{"parseMode":"md"}', 0)
    newest = (await store.history.of_agent(CODER))[0]
    assert (newest.role, newest.sender, newest.content) == (Role.ASSISTANT, CODER, "raw answer")
    events = await read_all(store.events)
    assert [event.type for event in events[-2:]] == ["chain_step_done", "response_ready"]
    assert events[-2].payload["duration_ms"] == 400
    assert events[-2].payload["usage"]["input_tokens"] == 3
    assert (await store.queue.depth()).open_conversations == 0


async def test_completing_and_claiming_is_one_step(store: Store, clock: FakeClock) -> None:
    for text in ("one", "two"):
        await say(store, text)

    handed_on, following = await store.queue.complete_and_claim(
        await take(store), Outcome("done", handoffs=(Handoff(TESTER, "t"),))
    )

    assert [message.agent for message in handed_on] == [TESTER]
    assert following is not None
    assert following.primary.message == "two"
    _, nothing = await store.queue.complete_and_claim(following, Outcome("done"))
    assert nothing is None
    with pytest.raises(ClaimLost):
        await store.queue.complete_and_claim(following, Outcome("again"))
    assert (await store.queue.depth()).completed == 2


async def test_hand_offs_are_enqueued_with_the_completion(store: Store) -> None:
    await say(store, "build", channel="telegram", sender="Ada", sender_id="7", team=DEV)
    claim = await take(store)

    (handed,) = await store.queue.complete(claim, Outcome("ok", handoffs=(Handoff(TESTER, "please test", DEV),)))

    assert handed.message_id.startswith("internal_")
    assert (handed.agent, handed.from_agent, handed.hop, handed.team) == (TESTER, CODER, 1, DEV)
    assert (handed.channel, handed.sender, handed.sender_id) == ("telegram", "Ada", "7")
    assert handed.parent_message_id == claim.primary.message_id
    assert handed.conversation_id == claim.primary.conversation_id
    assert handed.thread == f"@coder/{handed.conversation_id}"
    assert (await store.queue.depth()).open_conversations == 1
    assert (await types_of(store.events))[-4:] == [
        "chain_step_done",
        "response_ready",
        "message_received",
        "chain_handoff",
    ]


async def test_a_room_post_reaches_every_other_member_at_room_priority(store: Store) -> None:
    await say(store, "announce")
    claim = await take(store)
    post = RoomPost(DEV, "we ship", (TESTER, WRITER), "[Chat room #dev — @coder]:\nwe ship")

    first, second = await store.queue.complete(claim, Outcome("posted", posts=(post,)))

    assert [first.agent, second.agent] == [TESTER, WRITER]
    assert {first.channel, second.channel} == {ROOM_CHANNEL}
    assert (first.priority, first.thread, first.hop) == (ROOM_PRIORITY, "#dev", 1)
    assert first.message_id.startswith("chat_")
    (line,) = await store.history.of_room(DEV)
    assert (line.from_agent, line.message) == (CODER, "we ship")


async def test_a_team_conversation_ends_with_its_last_open_message(store: Store) -> None:
    await store.queue.enqueue(NewMessage("go", CODER, team=DEV))
    await store.queue.complete(await take(store), Outcome("ok", handoffs=(Handoff(TESTER, "test"),)))
    assert "team_chain_end" not in await types_of(store.events)

    await store.queue.complete(await take(store, TESTER), Outcome("passed"))

    end = (await read_all(store.events))[-1]
    assert (end.type, end.payload) == ("team_chain_end", {"team_id": "dev", "total_steps": 2})


async def test_coalesced_messages_complete_together_and_are_answered_once(store: Store) -> None:
    numbers = [await say(store, f"m{n}", channel="web") for n in range(3)]
    claim = await take(store)

    await store.queue.complete(claim, Outcome("all of it"))

    rows = [await store.queue.message(number) for number in numbers]
    assert [row and row.status for row in rows] == [Status.COMPLETED] * 3
    assert {row and row.answered_by for row in rows} == {claim.primary.message_id}
    assert len(await store.responses.pending("web")) == 1
    done = (await read_all(store.events))[-2]
    assert done.payload["ids"] == numbers
    assert (await store.queue.depth()).open_conversations == 0


async def test_hand_offs_of_a_coalesced_run_descend_from_the_primary(store: Store) -> None:
    await say(store, "question", hop=0)
    await say(store, "post", channel=ROOM_CHANNEL, team=DEV, priority=ROOM_PRIORITY, hop=4)

    (handed,) = await store.queue.complete(await take(store), Outcome("ok", handoffs=(Handoff(TESTER, "t"),)))

    assert handed.hop == 5
    assert (await store.queue.depth()).open_conversations == 1


@pytest.mark.parametrize("verb", ["complete", "fail", "stop", "release", "renew"])
async def test_a_stale_holder_changes_nothing(store: Store, verb: str) -> None:
    await say(store, "x")
    stale = await take(store)
    await store.queue.release(stale, reason="shutdown")
    current = await take(store)
    before = await types_of(store.events)

    moves: dict[str, Callable[[], Awaitable[object]]] = {
        "complete": lambda: store.queue.complete(stale, Outcome("late", handoffs=(Handoff(TESTER, "t"),))),
        "fail": lambda: store.queue.fail(stale, STUMBLE),
        "stop": lambda: store.queue.stop(stale, by="Ada"),
        "release": lambda: store.queue.release(stale, reason="again"),
        "renew": lambda: store.queue.renew(stale),
    }
    with pytest.raises(ClaimLost, match=stale.id):
        await moves[verb]()

    assert await types_of(store.events) == before
    await store.queue.complete(current, Outcome("in time"))
    assert len(await store.responses.pending("api")) == 1


async def test_a_stale_holder_does_not_fail_its_group(store: Store) -> None:
    for agent in (CODER, WRITER, TESTER):
        await say(store, "x", agent)
    claims = [await take(store, agent) for agent in (CODER, WRITER, TESTER)]
    await store.queue.release(claims[1], reason="test")

    results = await asyncio.gather(
        *(store.queue.complete(claim, Outcome("done")) for claim in claims), return_exceptions=True
    )

    assert [isinstance(result, ClaimLost) for result in results] == [False, True, False]
    assert (await store.queue.depth()).completed == 2


@pytest.mark.parametrize(
    "finish",
    [
        lambda store, claim: store.queue.complete(claim, Outcome("half \ud800")),
        lambda store, claim: store.queue.complete(claim, Outcome("ok", handoffs=(Handoff(TESTER, "\udfff"),))),
        lambda store, claim: store.queue.fail(claim, Failure(FailureKind.MESSAGE, "exit code 1: \ud800")),
        lambda store, claim: store.queue.fail(claim, Failure(FailureKind.MESSAGE, "exit code 1", notice="\ud800")),
        lambda store, claim: store.queue.stop(claim, by="\ud800"),
        lambda store, claim: store.queue.release(claim, reason="\ud800"),
    ],
    ids=["answer", "hand-off", "reason", "notice", "stop", "release"],
)
async def test_a_lone_surrogate_is_refused_and_keeps_the_claim(
    store: Store, finish: Callable[[Store, Claim], Awaitable[object]]
) -> None:
    await say(store, "x")
    await say(store, "y", WRITER)
    claim, neighbour = await take(store), await take(store, WRITER)

    results = await asyncio.gather(
        finish(store, claim), store.queue.complete(neighbour, Outcome("fine")), return_exceptions=True
    )

    assert isinstance(results[0], InvalidInput)
    assert "lone surrogate" in str(results[0])
    assert results[1] == ()
    await store.queue.complete(claim, Outcome("cleaned"))
    assert (await store.queue.depth()).completed == 2


async def test_a_failed_message_waits_longer_each_time_and_dies_after_five_attempts(
    store: Store, clock: FakeClock
) -> None:
    number = await say(store, "x", sender="Ada")
    waits = []
    for attempt in range(1, 6):
        claim = await take(store)
        assert claim.attempt == attempt
        await store.queue.fail(claim, STUMBLE)
        message = await store.queue.message(number)
        assert message is not None
        if message.status is Status.PENDING:
            waits.append((message.available_at - clock.now) / 1000)
            clock.now = message.available_at

    (dead,) = await store.queue.dead(agent=CODER)
    assert (dead.id, dead.retry_count, dead.last_error) == (number, 5, "exit code 1")
    for wait, plain in zip(waits, (2, 8, 32, 128), strict=True):
        assert 0.8 * plain <= wait <= 1.2 * plain
    (notice,) = await store.responses.pending("api")
    assert (notice.seq, notice.sender) == (1, "Ada")
    assert "exit code 1" in notice.message
    assert await store.queue.dead(agent=WRITER) == ()
    assert (await store.queue.depth()).open_conversations == 0


async def test_attempts_are_counted_per_message(store: Store, clock: FakeClock) -> None:
    first = await say(store, "m0", channel="web")
    await store.queue.fail(await take(store), STUMBLE)
    clock.advance(timedelta(minutes=1))
    await store.queue.fail(await take(store), STUMBLE)
    second = await say(store, "other", channel="web", sender="b")
    await store.queue.fail(await take(store), STUMBLE)

    rows = [await store.queue.message(number) for number in (first, second)]

    assert [row and row.retry_count for row in rows] == [2, 1]


async def test_an_unavailable_provider_holds_the_lane_and_uses_no_attempt(store: Store, clock: FakeClock) -> None:
    number = await say(store, "x")

    await store.queue.fail(await take(store), UNAVAILABLE)

    message = await store.queue.message(number)
    assert message is not None
    assert (message.status, message.retry_count, message.last_error) == (Status.PENDING, 0, None)
    (lane,) = await store.lanes.all()
    assert lane.hold_reason == "429 too many requests"
    assert await store.queue.claim(CODER) is None
    first_hold = lane.hold_until - clock.now
    clock.now = lane.hold_until
    await store.queue.fail(await take(store), UNAVAILABLE)
    (lane,) = await store.lanes.all()
    assert lane.hold_until - clock.now > 2 * first_hold
    clock.now = lane.hold_until
    await store.queue.complete(await take(store), Outcome("back"))
    (lane,) = await store.lanes.all()
    assert (lane.holds, lane.hold_until, lane.hold_reason) == (0, 0, None)


async def test_retry_after_is_honoured(store: Store, clock: FakeClock) -> None:
    await say(store, "x")

    await store.queue.fail(
        await take(store), Failure(FailureKind.UNAVAILABLE, "limit", retry_after=timedelta(minutes=40))
    )

    assert await store.queue.next_due_at() == clock.now + 40 * 60_000


async def test_a_time_out_is_retried_once(store: Store, clock: FakeClock) -> None:
    number = await say(store, "x")
    for _ in range(2):
        await store.queue.fail(await take(store), Failure(FailureKind.TIMEOUT, "no output for 10 min"))
        clock.advance(timedelta(hours=1))

    message = await store.queue.message(number)

    assert message is not None
    assert message.status is Status.DEAD


async def test_a_stopped_message_is_dead_and_the_lane_continues(store: Store) -> None:
    number = await say(store, "x")
    await say(store, "y")

    await store.queue.stop(await take(store), by="Ada")

    message = await store.queue.message(number)
    assert message is not None
    assert (message.status, message.last_error, message.retry_count) == (Status.DEAD, "stopped by Ada", 0)
    assert await run_all(store) == [["y"]]


async def test_releasing_restores_the_message(store: Store) -> None:
    number = await say(store, "x")
    before = await store.queue.message(number)

    await store.queue.release(await take(store), reason="shutdown")

    after = await store.queue.message(number)
    assert before is not None
    assert after is not None
    assert after._replace(last_event_id=0, started_at=None) == before._replace(last_event_id=0)
    assert (await take(store)).attempt == 1


async def test_a_dead_message_can_be_retried_with_new_attempts(store: Store) -> None:
    number = await say(store, "x")
    await store.queue.stop(await take(store), by="Ada")

    revived = await store.queue.retry_dead(number, text="x, please")

    assert (revived.status, revived.message, revived.retry_count) == (Status.PENDING, "x, please", 0)
    assert revived.last_error == "stopped by Ada"
    assert (await store.queue.depth()).open_conversations == 1
    assert await run_all(store) == [["x, please"]]
    answers = await store.responses.pending("api")
    assert sorted(response.seq for response in answers) == [0, 1]


async def test_a_dead_message_can_be_deleted(store: Store) -> None:
    number = await say(store, "x")
    await store.queue.stop(await take(store), by="Ada")

    await store.queue.delete_dead(number, reason="by Ada")

    assert await store.queue.message(number) is None
    assert (await store.queue.depth()).dead == 0
    assert (await types_of(store.events))[-1] == "message_deleted"


@pytest.mark.parametrize("state", ["unknown", "pending", "completed"])
async def test_only_dead_messages_are_retried_or_deleted(store: Store, state: str) -> None:
    number = await say(store, "x")
    if state == "completed":
        await store.queue.complete(await take(store), Outcome("done"))
    target = 999 if state == "unknown" else number

    with pytest.raises(NotFound):
        await store.queue.retry_dead(target)
    with pytest.raises(NotFound):
        await store.queue.delete_dead(target, reason="x")
