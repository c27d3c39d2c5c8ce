"""POST /api/message: its fields, its answers, and that an accepted message is durable."""

import asyncio
import json
from typing import Any

import pytest

from tests.server.conftest import Premises
from tinyagi.domain.errors import OutcomeUnknown, StoreFull
from tinyagi.settings.home import Home
from tinyagi.store.store import Store
from tinyagi.wiring import open_inbox


async def test_a_message_is_stored_before_it_is_answered(premises: Premises) -> None:
    await premises.http.post("/api/queue/agents/coder/pause")
    answer = await premises.http.post("/api/message", json={"message": "hello", "agent": "coder", "sender": "Ada"})
    reply = answer.json()

    assert answer.status_code == 200
    assert reply == {"ok": True, "messageId": reply["messageId"], "conversationId": reply["messageId"]}
    assert await is_visible_to_another_connection(premises.home, reply["messageId"])


async def test_an_unknown_name_at_the_front_is_a_warning(premises: Premises) -> None:
    answer = await premises.http.post("/api/message", json={"message": "@testr hello"})
    named = await premises.http.post("/api/message", json={"message": "@testr hello", "agent": "writer"})

    assert answer.status_code == 200
    expected = 'There is no agent or team "testr"; the message went to @coder. Did you mean @tester?'
    assert answer.json()["warning"] == expected
    assert "warning" not in named.json()


async def is_visible_to_another_connection(home: Home, message_id: str) -> bool:
    """True when another connection to the same database reads the message."""
    async with open_inbox(home) as (store, _):
        events = await store.events.read_after(0, event_type="message_received")
    return any(event.message_id == message_id for event in events)


async def test_every_field_of_a_message_is_stored(premises: Premises) -> None:
    (premises.home.files / "plan.txt").write_text("plan")
    fields = {
        "message": "@tester not a prefix when an agent is named",
        "agent": "coder",
        "sender": "Ada",
        "senderId": "4711",
        "channel": "cli",
        "messageId": "my own id / 1",
        "files": ["plan.txt"],
        "priority": 5,
        "delaySeconds": 3600,
    }
    assert (await premises.http.post("/api/message", json=fields)).status_code == 200
    (message,) = await premises.messages()

    assert (message.message, message.agent, message.sender) == (fields["message"], "coder", "Ada")
    assert (message.sender_id, message.channel, message.message_id) == ("4711", "cli", "my own id / 1")
    assert json.loads(message.files or "") == [str(premises.home.files / "plan.txt")]
    assert message.priority == 5
    assert message.available_at > message.created_at + 3_500_000


async def test_a_repeated_id_is_refused_and_stored_once(premises: Premises) -> None:
    fields = {"message": "once", "messageId": "m-1"}
    calls = [premises.http.post("/api/message", json=fields) for _ in range(10)]
    answers = await asyncio.gather(*calls)

    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 9
    refused = next(answer.json() for answer in answers if answer.status_code == 409)
    assert refused["messageId"] == "m-1"
    assert "another messageId" in refused["error"]
    assert len(await premises.events("message_received")) == 1


async def test_a_text_for_several_agents_gives_several_ids(premises: Premises) -> None:
    fields = {"message": "[@coder: build it] [@tester: test it]", "messageId": "m-1"}
    answer = (await premises.http.post("/api/message", json=fields)).json()

    assert answer["messageIds"] == ["m-1", "m-1.2"]
    assert answer["conversationId"] == "m-1"
    assert (await premises.http.post("/api/message", json=fields)).status_code == 409


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "object"),
        (b"{}", "message"),
        (b'{"message": 7}', "message"),
        (b'{"message": ""}', "needs a text"),
        (b'{"message": "  \\n"}', "needs a text"),
        (b'{"message": "x", "agent": "nobody"}', "nobody"),
        (b'{"message": "x", "channel": "Not A Channel"}', "channel"),
        (b'{"message": "x", "sender": ""}', "sender"),
        (b'{"message": "x", "agent": "coder", "sender": "A\\nB"}', "sender"),
        (b'{"message": "x", "agent": "coder", "senderId": "4\\u0000"}', "senderId"),
        (b'{"message": "x", "agent": "coder", "messageId": "m\\n1"}', "messageId"),
        (b'{"message": "@coder x", "messageId": "m\\u20281"}', "messageId"),
        (b'{"message": "x", "messageId": ""}', "messageId"),
        (b'{"message": "x", "messageId": "' + b"y" * 129 + b'"}', "messageId"),
        (b'{"message": "x", "priority": -2}', "priority"),
        (b'{"message": "x", "priority": 99999999999999999999999}', "priority"),
        (b'{"message": "x", "delaySeconds": -1}', "delaySeconds"),
        (b'{"message": "x", "delaySeconds": 1e300}', "delaySeconds"),
        (b'{"message": "x", "delaySeconds": NaN}', "delaySeconds"),
        (b'{"message": "x", "message_id": 7, "messageId": 7}', "messageId"),
        (b'{"message": "x", "priority": "5"}', "priority"),
        (b'{"message": "\xff"}', "JSON"),
        (b"[" * 10_000, ""),
    ],
)
async def test_an_invalid_message_is_refused_with_a_reason(premises: Premises, body: bytes, says: str) -> None:
    answer = await premises.http.post("/api/message", content=body)

    assert answer.status_code == 400
    assert says in answer.json()["error"]
    assert await premises.events("message_received") == []


@pytest.mark.parametrize("channel", ["chatroom", "schedule", "heartbeat", "board", "internal"])
async def test_a_reserved_channel_is_refused_with_the_remedy(premises: Premises, channel: str) -> None:
    answer = await premises.http.post("/api/message", json={"message": "x", "agent": "coder", "channel": channel})

    assert answer.status_code == 400
    assert channel in answer.json()["error"]
    assert "Use another channel, such as api" in answer.json()["error"]
    assert await premises.events("message_received") == []


async def test_a_conflict_names_the_id_of_the_conflicting_part(premises: Premises) -> None:
    await premises.http.post("/api/message", json={"message": "x", "agent": "coder", "messageId": "m-1.2"})
    fields = {"message": "[@coder: build it] [@tester: test it]", "messageId": "m-1"}
    answer = await premises.http.post("/api/message", json=fields)

    assert answer.status_code == 409
    assert answer.json()["messageId"] == "m-1.2"


async def test_unknown_fields_are_ignored(premises: Premises) -> None:
    fields: dict[str, Any] = {"message": "x", "agent": None, "mood": {"happy": [1, 2, 3]}}

    assert (await premises.http.post("/api/message", json=fields)).status_code == 200


@pytest.mark.parametrize(
    "error", [StoreFull("The disk is full."), OutcomeUnknown("Repeat it with the same messageId.")]
)
async def test_a_store_error_is_answered_with_503(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise error

    store: Store = premises.store
    monkeypatch.setattr(store.queue, "enqueue_parts", fail)
    answer = await premises.http.post("/api/message", json={"message": "x"})

    assert answer.status_code == 503
    assert answer.json() == {"error": str(error)}


async def test_other_methods_are_refused(premises: Premises) -> None:
    assert (await premises.http.get("/api/message")).status_code in {404, 405}
    assert (await premises.http.put("/api/message", json={"message": "x"})).status_code in {404, 405}
