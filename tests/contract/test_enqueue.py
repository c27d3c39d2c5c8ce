import asyncio

import pytest

from tests.contract.conftest import CODER, DEV, TESTER, WRITER
from tests.support.clock import FakeClock
from tests.support.log import read_all, types_of
from tinyagi.domain.errors import DuplicateMessage, InvalidInput
from tinyagi.domain.events import TeamChainStart
from tinyagi.domain.ids import AgentId, ConversationId, MessageId
from tinyagi.domain.messages import NewMessage, Status
from tinyagi.domain.responses import Role
from tinyagi.store.store import Store


async def test_a_message_is_stored_with_its_history_and_its_event(store: Store, clock: FakeClock) -> None:
    stored = await store.queue.enqueue(NewMessage("fix it", CODER, sender="Ada", files=("a.txt",)))

    assert stored.status is Status.PENDING
    assert stored.message_id.startswith("api_")
    assert stored.conversation_id == ConversationId(stored.message_id)
    assert stored.thread == "api:Ada"
    assert stored.files == '["a.txt"]'
    assert await store.queue.message(stored.id) == stored
    (entry,) = await store.history.of_agent(CODER)
    assert (entry.role, entry.sender, entry.content, entry.message_id) == (
        Role.USER,
        "Ada",
        "fix it",
        stored.message_id,
    )
    (event,) = await read_all(store.events)
    assert (event.type, event.message_id, event.agent) == ("message_received", stored.message_id, CODER)
    assert event.conversation_started_at == clock.now
    assert event.payload["message"] == stored._asdict()
    assert stored.last_event_id == event.id


async def test_a_repeated_message_id_is_refused_and_changes_nothing(store: Store) -> None:
    message = NewMessage("once", CODER, message_id=MessageId("telegram_42"))
    await store.queue.enqueue(message)

    with pytest.raises(DuplicateMessage, match="telegram_42"):
        await store.queue.enqueue(message)

    assert (await store.queue.depth()).pending == 1
    assert await types_of(store.events) == ["message_received"]


async def test_a_duplicate_does_not_fail_its_neighbours(store: Store) -> None:
    await store.queue.enqueue(NewMessage("first", CODER, message_id=MessageId("m1")))

    results = await asyncio.gather(
        *(store.queue.enqueue(NewMessage(f"n{i}", CODER, message_id=MessageId(f"m{i}"))) for i in range(4)),
        return_exceptions=True,
    )

    assert [type(result).__name__ for result in results] == ["Message", "DuplicateMessage", "Message", "Message"]
    assert (await store.queue.depth()).pending == 4


async def test_concurrent_messages_with_the_same_id_are_stored_once(store: Store) -> None:
    results = await asyncio.gather(
        *(store.queue.enqueue(NewMessage("x", CODER, message_id=MessageId("same"))) for _ in range(5)),
        return_exceptions=True,
    )

    assert sum(isinstance(result, DuplicateMessage) for result in results) == 4
    assert (await store.queue.depth()).pending == 1


async def test_many_messages_are_stored_all_or_none(store: Store) -> None:
    await store.queue.enqueue(NewMessage("there", CODER, message_id=MessageId("taken")))

    with pytest.raises(DuplicateMessage):
        await store.queue.enqueue_many(
            [NewMessage("new", CODER), NewMessage("x", WRITER, message_id=MessageId("taken"))]
        )

    assert (await store.queue.depth()).pending == 1
    stored = await store.queue.enqueue_many([NewMessage("a", CODER), NewMessage("b", WRITER)])
    assert [message.message for message in stored] == ["a", "b"]
    assert stored[0].conversation_id != stored[1].conversation_id


async def test_parts_share_a_conversation_and_are_named_after_the_first(store: Store) -> None:
    parts = [NewMessage("x", CODER, message_id=MessageId("web_1")), NewMessage("y", TESTER), NewMessage("z", WRITER)]

    stored = await store.queue.enqueue_parts(parts)

    assert [part.message_id for part in stored] == ["web_1", "web_1.2", "web_1.3"]
    assert {part.conversation_id for part in stored} == {"web_1"}
    with pytest.raises(DuplicateMessage, match="web_1"):
        await store.queue.enqueue_parts(parts)
    assert (await store.queue.depth()).pending == 3
    assert (await store.queue.depth()).open_conversations == 1


async def test_the_error_names_the_part_whose_id_is_taken(store: Store) -> None:
    await store.queue.enqueue(NewMessage("there", CODER, message_id=MessageId("web_1.2")))

    with pytest.raises(DuplicateMessage) as refused:
        await store.queue.enqueue_parts(
            [NewMessage("x", CODER, message_id=MessageId("web_1")), NewMessage("y", TESTER, message_id=None)]
        )

    assert refused.value.message_id == "web_1.2"
    assert (await store.queue.depth()).pending == 1


async def test_the_error_for_repeated_parts_names_the_first_part(store: Store) -> None:
    parts = [NewMessage("x", CODER, message_id=MessageId("web_1")), NewMessage("y", TESTER)]
    await store.queue.enqueue_parts(parts)

    with pytest.raises(DuplicateMessage) as refused:
        await store.queue.enqueue_parts(parts)

    assert refused.value.message_id == "web_1"


async def test_a_duplicate_id_within_one_call_is_refused(store: Store) -> None:
    with pytest.raises(DuplicateMessage) as refused:
        await store.queue.enqueue_many(
            [NewMessage("x", CODER, message_id=MessageId(name)) for name in ("one", "two", "two")]
        )

    assert refused.value.message_id == "two"
    assert (await store.queue.depth()).pending == 0


async def test_a_message_can_join_a_conversation(store: Store, clock: FakeClock) -> None:
    root = await store.queue.enqueue(NewMessage("root", CODER, team=DEV))
    clock.now += 1000

    joined = await store.queue.enqueue(NewMessage("more", TESTER, conversation_id=root.conversation_id))
    stranger = await store.queue.enqueue(NewMessage("other", TESTER, conversation_id=ConversationId("unknown_1")))

    assert joined.conversation_started_at == root.created_at
    assert joined.conversation_team == DEV
    assert stranger.conversation_started_at == clock.now


async def test_additional_events_are_recorded_with_the_message(store: Store) -> None:
    fact = TeamChainStart(DEV, (CODER, TESTER), CODER)

    stored = await store.queue.enqueue(NewMessage("go", CODER, team=DEV, facts=(fact,)))

    received, started = await read_all(store.events)
    assert (received.type, started.type) == ("message_received", "team_chain_start")
    assert started.conversation_id == stored.conversation_id


async def test_hostile_text_is_stored_unchanged(store: Store) -> None:
    text = "'; DROP TABLE messages; -- \x00 \ud83e\udd9e".encode("utf-16", "surrogatepass").decode("utf-16") + "🦞\n[x]"

    stored = await store.queue.enqueue(NewMessage(text, CODER, sender="Robert'); --"))

    read = await store.queue.message(stored.id)
    assert read is not None
    assert read.message == text


@pytest.mark.parametrize("message_id", ["", "x" * 129])
async def test_a_message_id_of_invalid_length_is_refused(store: Store, message_id: str) -> None:
    with pytest.raises(InvalidInput, match="1 to 128 characters"):
        await store.queue.enqueue(NewMessage("x", CODER, message_id=MessageId(message_id)))


async def test_a_lone_surrogate_is_refused_and_changes_nothing(store: Store) -> None:
    with pytest.raises(InvalidInput, match="lone surrogate"):
        await store.queue.enqueue(NewMessage("broken \ud83e", CODER))
    assert await types_of(store.events) == []


@pytest.mark.parametrize("agent", ["../evil", "Coder", "a b", "x" * 65])
async def test_an_invalid_agent_id_is_refused(store: Store, agent: str) -> None:
    with pytest.raises(InvalidInput, match="is not an agent id"):
        await store.queue.enqueue(NewMessage("x", AgentId(agent)))


async def test_a_message_without_parts_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput):
        await store.queue.enqueue_parts([])
