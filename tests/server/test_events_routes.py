"""The event log over HTTP."""

import pytest

from tests.server.conftest import Premises


async def test_the_log_is_read_in_order_from_a_cursor(premises: Premises) -> None:
    sent = await premises.send("@coder build it")
    await premises.drained()

    events = (await premises.http.get("/api/events")).json()
    ids = [event["id"] for event in events]

    assert ids == sorted(ids)
    assert [event["type"] for event in events] == [event.type for event in await premises.events()]
    received = next(event for event in events if event["type"] == "message_received")
    assert (received["messageId"], received["conversationId"]) == (sent.message_id, sent.conversation_id)
    assert received["agentId"] == "coder"
    assert received["payload"]["message"]["message"] == "@coder build it"
    assert received["timestamp"] >= received["conversationStartedAt"]

    after = (await premises.http.get("/api/events", params={"after": ids[1], "limit": 2})).json()
    assert [event["id"] for event in after] == ids[2:4]
    assert (await premises.http.get("/api/events", params={"after": ids[-1]})).json() == []


async def test_texts_in_the_log_are_not_shortened(premises: Premises) -> None:
    long = "word " * 5_000
    await premises.send(f"@coder {long}")

    (received,) = (await premises.http.get("/api/events", params={"type": "message_received"})).json()

    assert received["payload"]["message"]["message"] == f"@coder {long}"


async def test_the_log_is_filtered_by_type(premises: Premises) -> None:
    await premises.send("@coder one")
    await premises.drained()

    done = (await premises.http.get("/api/events", params={"type": "chain_step_done"})).json()

    assert [event["payload"]["content"] for event in done] == ["echo: one"]
    assert (await premises.http.get("/api/events", params={"type": "never_heard_of"})).json() == []


@pytest.mark.parametrize(
    "query", ["after=-1", f"after={2**63}", "after=x", "limit=0", "limit=1001", "type=", "type=a b"]
)
async def test_malformed_queries_are_refused(premises: Premises, query: str) -> None:
    answer = await premises.http.get(f"/api/events?{query}")

    assert answer.status_code == 400
    assert query.split("=", maxsplit=1)[0] in answer.json()["error"]
