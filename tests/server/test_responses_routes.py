"""Responses over HTTP: the list, the ones a channel has to deliver, and the result of a delivery."""

import json
from pathlib import Path

import apsw
import pytest

from tests.server.conftest import Premises
from tinyagi.domain.ids import AgentId
from tinyagi.domain.responses import NewResponse
from tinyagi.system.clock import wall_clock

TO_ADA = {"channel": "telegram", "sender": "Ada", "message": "The build is green."}


async def test_answers_are_listed_newest_first(premises: Premises) -> None:
    for text in ("one", "two", "three"):
        await premises.send(f"@coder {text}", sender="Ada", sender_id="4711", channel="web")
        await premises.drained()

    rows = (await premises.http.get("/api/responses", params={"limit": 2})).json()

    assert [row["message"] for row in rows] == ["echo: three", "echo: two"]
    assert rows[0].keys() == {
        *("id", "channel", "sender", "senderId", "message", "originalMessage", "timestamp", "messageId"),
        *("conversationId", "agent", "files", "status"),
    }
    assert (rows[0]["channel"], rows[0]["sender"], rows[0]["senderId"]) == ("web", "Ada", "4711")
    assert (rows[0]["originalMessage"], rows[0]["agent"], rows[0]["files"]) == ("@coder three", "coder", [])
    assert rows[0]["timestamp"] <= wall_clock()


async def test_a_channel_fetches_its_responses_oldest_first_and_acknowledges_them(premises: Premises) -> None:
    for text in ("one", "two"):
        await premises.http.post("/api/responses", json={**TO_ADA, "message": text})
    await premises.http.post("/api/responses", json={**TO_ADA, "channel": "discord"})

    waiting = (await premises.http.get("/api/responses/pending", params={"channel": "telegram"})).json()
    assert [row["message"] for row in waiting] == ["one", "two"]
    assert (waiting[0]["metadata"], waiting[0]["attempts"]) == ({}, 0)

    for _ in range(2):
        assert (await premises.http.post(f"/api/responses/{waiting[0]['id']}/ack")).json() == {"ok": True}
    left = (await premises.http.get("/api/responses/pending", params={"channel": "telegram", "limit": 1})).json()
    assert [row["message"] for row in left] == ["two"]


@pytest.mark.parametrize("move", ["ack", "fail"])
async def test_an_unknown_response_is_not_found(premises: Premises, move: str) -> None:
    answer = await premises.http.post(f"/api/responses/999/{move}", json={"reason": "gone"})

    assert answer.status_code == 404
    assert "999" in answer.json()["error"]


async def test_metadata_reaches_the_channel(premises: Premises) -> None:
    new = NewResponse("telegram", "Ada", "*hi*", metadata={"parseMode": "Markdown"})
    await premises.store.responses.send(new)

    (waiting,) = (await premises.http.get("/api/responses/pending", params={"channel": "telegram"})).json()

    assert waiting["metadata"] == {"parseMode": "Markdown"}


async def test_an_agent_sends_a_proactive_message_with_files(premises: Premises) -> None:
    folder = premises.folder / "workspace" / "coder"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.txt").write_text("plan")

    new = {**TO_ADA, "senderId": "4711", "agent": "coder", "files": ["plan.txt"], "nobody": "knows this"}
    answer = await premises.http.post("/api/responses", json=new)

    assert answer.status_code == 200
    assert answer.json()["ok"] is True
    assert answer.json()["messageId"].startswith("proactive_")
    (waiting,) = (await premises.http.get("/api/responses/pending", params={"channel": "telegram"})).json()
    assert waiting["messageId"] == answer.json()["messageId"]
    assert (waiting["agent"], waiting["senderId"]) == ("coder", "4711")
    (copy,) = map(Path, waiting["files"])
    assert copy.is_relative_to(premises.home.files)
    assert copy.read_bytes() == (folder / "plan.txt").read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"message": " "},
        {"message": "\ud800"},
        {"message": None},
        {"sender": " "},
        {"sender": "\udfff"},
        {"sender": "a" * 257},
        {"senderId": "\ud800"},
        {"senderId": "4\n7"},
        {"sender": "A\x1bB"},
        {"channel": "Not A Channel"},
        {"agent": "ghost"},
        {"agent": "../coder"},
        {"files": ["/etc/passwd"]},
        {"files": ["a\x00b"]},
        {"files": ["\ud800"]},
        {"files": "plan.txt"},
    ],
)
async def test_an_invalid_proactive_message_is_refused(premises: Premises, change: dict[str, object]) -> None:
    answer = await premises.http.post("/api/responses", content=json.dumps({**TO_ADA, **change}))

    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}
    assert (await premises.http.get("/api/responses")).json() == []


@pytest.mark.parametrize("missing", ["channel", "sender", "message"])
async def test_a_proactive_message_needs_its_fields(premises: Premises, missing: str) -> None:
    new = {name: value for name, value in TO_ADA.items() if name != missing}

    answer = await premises.http.post("/api/responses", json=new)

    assert answer.status_code == 400
    assert missing in answer.json()["error"]


async def test_a_failed_delivery_waits_and_blocks_its_chat(closed_premises: Premises) -> None:
    closed_premises.settings["queue"]["retry_base_seconds"] = 600
    async with closed_premises.serve() as premises:
        for text in ("one", "two"):
            await premises.http.post("/api/responses", json={**TO_ADA, "message": text})
        first, _ = (await premises.http.get("/api/responses/pending", params={"channel": "telegram"})).json()

        answer = await premises.http.post(f"/api/responses/{first['id']}/fail", json={"reason": "the chat is closed"})

        assert (answer.json()["retried"], answer.json()["retryAt"] > 0) == (True, True)
        assert (await premises.http.get("/api/responses/pending", params={"channel": "telegram"})).json() == []
        (failed,) = await premises.events("response_failed")
        assert failed.payload["reason"] == "the chat is closed"


async def test_a_delivery_fails_for_good_after_the_configured_attempts(closed_premises: Premises) -> None:
    closed_premises.settings["queue"]["delivery_attempts"] = 1
    async with closed_premises.serve() as premises:
        await premises.http.post("/api/responses", json=TO_ADA)
        (row,) = (await premises.http.get("/api/responses")).json()

        answer = await premises.http.post(f"/api/responses/{row['id']}/fail", json={"reason": "blocked"})

        assert answer.json() == {"ok": True, "retried": False, "retryAt": None}
        (row,) = (await premises.http.get("/api/responses")).json()
        assert row["status"] == "failed"


@pytest.mark.parametrize("reason", ["", " ", "\ud800", None, "x" * 10_001])
async def test_a_failed_delivery_needs_a_reason(premises: Premises, reason: str | None) -> None:
    await premises.http.post("/api/responses", json=TO_ADA)
    (row,) = (await premises.http.get("/api/responses")).json()

    answer = await premises.http.post(f"/api/responses/{row['id']}/fail", content=json.dumps({"reason": reason}))

    assert answer.status_code == 400
    assert await premises.events("response_failed") == []


@pytest.mark.parametrize("query", ["", "?channel=", "?channel=A B", "?channel=web&limit=0", "?channel=web&limit=x"])
async def test_pending_responses_need_a_valid_channel(premises: Premises, query: str) -> None:
    answer = await premises.http.get(f"/api/responses/pending{query}")

    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}


@pytest.mark.parametrize(
    ("files", "metadata", "shown"),
    [
        ("not json", "[1]", ((), {})),
        ('{"a": 1}', '"text"', ((), {})),
        ('["a.txt", 7, null]', '{"mode": "HTML", "n": {"d": [1]}}', (("a.txt",), {"mode": "HTML", "n": {"d": [1]}})),
        ('["\\ud800"]', '{"x": "\\ud800"}', ((), {})),
        ("[" * 5_000, '{"a":' * 400 + "1" + "}" * 400, ((), {})),
        ("", "", ((), {})),
    ],
)
async def test_malformed_stored_rows_do_not_break_the_list(
    premises: Premises, files: str, metadata: str, shown: tuple[tuple[str, ...], dict[str, object]]
) -> None:
    sent = await premises.store.responses.send(NewResponse("telegram", "Ada", "hi", agent=AgentId("coder")))
    connection = apsw.Connection(str(premises.home.database))
    connection.set_busy_timeout(10_000)
    connection.execute("UPDATE responses SET files = ?, metadata = ? WHERE id = ?", (files, metadata, sent.id))
    connection.close()

    (waiting,) = (await premises.http.get("/api/responses/pending", params={"channel": "telegram"})).json()

    assert (tuple(waiting["files"]), waiting["metadata"]) == shown
