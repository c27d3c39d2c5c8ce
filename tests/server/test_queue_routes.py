"""The queue over HTTP: depths, lanes, running and dead messages, and the actions on them."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.server.conftest import Premises
from tests.support.puppet import Gate, failing
from tinyagi.domain.ids import AgentId
from tinyagi.system.clock import wall_clock

CODER = AgentId("coder")
TOO_LARGE = 2**63


async def a_dead_message(premises: Premises, text: str = "break") -> dict[str, Any]:
    """Send a message that fails for good, and return its row in the list."""
    premises.puppet.plays["coder"] = failing()
    await premises.send(f"@coder {text}", sender="Ada", sender_id="4711", channel="web")
    await premises.until_event("message_dead")
    (dead,) = (await premises.http.get("/api/queue/dead")).json()
    assert isinstance(dead, dict)
    return dead


async def test_an_empty_queue_counts_nothing(premises: Premises) -> None:
    answer = await premises.http.get("/api/queue/status")

    assert answer.status_code == 200
    names = (
        "pending",
        "processing",
        "completed",
        "dead",
        "waiting",
        "incoming",
        "queued",
        "outgoing",
        "activeConversations",
    )
    assert answer.json() == {**dict.fromkeys(names, 0), "retrying": 0, "nextRetryAt": None}


async def test_the_status_counts_messages_by_state(premises: Premises) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    await premises.send("@writer hello")
    await premises.until_event("response_ready")
    await premises.send("@coder first", sender="Ada")
    await gate.reached.wait()
    await premises.send("@coder second", sender="Bob")
    await premises.store.lanes.pause(AgentId("tester"))
    await premises.send("@tester third")
    await premises.send("@tester fourth")

    status = (await premises.http.get("/api/queue/status")).json()
    lanes = {lane["agent"]: lane for lane in (await premises.http.get("/api/queue/agents")).json()}

    assert status == {
        "pending": 2,
        "processing": 1,
        "completed": 1,
        "dead": 0,
        "waiting": 3,
        "incoming": 2,
        "queued": 1,
        "outgoing": 1,
        "activeConversations": 4,
        "retrying": 0,
        "nextRetryAt": None,
    }
    counts = {agent: (lane["pending"], lane["queued"], lane["waiting"]) for agent, lane in lanes.items()}
    assert counts == {"coder": (0, 1, 1), "writer": (0, 0, 0), "tester": (2, 0, 2)}
    gate.open.set()


async def test_every_agent_has_a_lane_in_the_list(premises: Premises) -> None:
    lanes = (await premises.http.get("/api/queue/agents")).json()

    assert [lane["agent"] for lane in lanes] == ["coder", "writer", "tester"]
    assert lanes[0] == {
        "agent": "coder",
        "pending": 0,
        "queued": 0,
        "waiting": 0,
        "processing": 0,
        "dead": 0,
        "paused": False,
        "holdUntil": None,
        "holdReason": None,
        "holdCause": None,
    }


async def test_a_paused_lane_without_an_agent_is_listed_until_it_is_resumed(premises: Premises) -> None:
    await premises.store.lanes.pause(AgentId("ghost"))

    lanes = (await premises.http.get("/api/queue/agents")).json()
    assert [lane["agent"] for lane in lanes] == ["coder", "writer", "tester", "ghost"]

    assert (await premises.http.post("/api/queue/agents/ghost/resume")).json() == {"ok": True}
    lanes = (await premises.http.get("/api/queue/agents")).json()
    assert [lane["agent"] for lane in lanes] == ["coder", "writer", "tester"]


async def test_a_held_lane_shows_its_end_and_reason(premises: Premises) -> None:
    later = wall_clock() + 60_000
    await premises.store.lanes.hold(CODER, until=later, reason="the key is wrong")
    await premises.store.lanes.hold(AgentId("writer"), until=1, reason="long over")

    coder, writer, _ = (await premises.http.get("/api/queue/agents")).json()

    assert (coder["holdUntil"], coder["holdReason"]) == (later, "the key is wrong")
    assert (writer["holdUntil"], writer["holdReason"]) == (None, None)


async def test_a_running_message_is_listed_with_its_progress(premises: Premises) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    sent = await premises.send("@coder build it", sender="Ada", channel="web")
    await gate.reached.wait()

    (running,) = (await premises.http.get("/api/queue/processing")).json()

    assert running["messageId"] == sent.message_id
    assert (running["channel"], running["sender"], running["message"]) == ("web", "Ada", "@coder build it")
    assert (running["agent"], running["status"], running["attempt"]) == ("coder", "processing", 1)
    assert running["processAlive"] is True
    assert running["progress"] == "coder works on it"
    assert 0 <= running["duration"] <= wall_clock() - running["startedAt"]
    gate.open.set()


async def test_waiting_messages_are_listed_after_running_ones(premises: Premises) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    await premises.store.lanes.pause(AgentId("writer"))
    await premises.send("@writer wait")
    await premises.send("@coder first", sender="Ada")
    await gate.reached.wait()
    await premises.send("@coder second", sender="Bob")
    await premises.send("@coder much later", delay=timedelta(hours=1))

    listed = (await premises.http.get("/api/queue/processing")).json()
    page = (await premises.http.get("/api/queue/processing?limit=2")).json()

    assert [(one["message"], one["status"]) for one in listed] == [
        ("@coder first", "processing"),
        ("@writer wait", "queued"),
        ("@coder second", "queued"),
        ("@coder much later", "queued"),
    ]
    waiting = listed[1]
    assert (waiting["processAlive"], waiting["startedAt"], waiting["duration"]) == (False, None, 0)
    assert [one["id"] for one in page] == [one["id"] for one in listed[:2]]
    gate.open.set()


async def test_a_run_of_another_process_is_listed_as_not_alive(premises: Premises) -> None:
    await premises.store.lanes.pause(CODER)
    await premises.send("@coder build it")
    await premises.engine.stop(timedelta())
    await premises.store.lanes.resume(CODER)
    assert await premises.store.queue.claim(CODER) is not None

    (running,) = (await premises.http.get("/api/queue/processing")).json()

    assert (running["processAlive"], running["progress"]) == (False, "")
    answer = await premises.http.post(f"/api/queue/processing/{running['id']}/kill")
    assert answer.status_code == 404


@pytest.mark.parametrize(("headers", "who"), [({}, "the owner"), ({"X-TinyAGI-Client": "office"}, "office")])
async def test_a_killed_run_records_its_killer(premises: Premises, headers: dict[str, str], who: str) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    await premises.send("@coder build it")
    await gate.reached.wait()
    (running,) = (await premises.http.get("/api/queue/processing")).json()

    answer = await premises.http.post(f"/api/queue/processing/{running['id']}/kill", headers=headers)

    assert answer.json() == {"ok": True, "agent": "coder", "processKilled": True}
    assert premises.puppet.cancelled == ["coder"]
    (dead,) = (await premises.http.get("/api/queue/dead")).json()
    assert dead["failedReason"] == f"stopped by {who}"
    (entry,) = (await premises.http.get("/api/audit")).json()
    assert (entry["action"], entry["target"]) == ("stop_run", str(running["id"]))
    assert "127.0.0.1" in entry["who"]


async def test_a_message_that_is_not_running_cannot_be_killed(premises: Premises) -> None:
    await premises.store.lanes.pause(CODER)
    await premises.send("@coder build it")
    (message,) = await premises.messages()

    for number in (message.id, 999):
        answer = await premises.http.post(f"/api/queue/processing/{number}/kill")
        assert answer.status_code == 404
        assert str(number) in answer.json()["error"]
    assert (await premises.http.get("/api/audit")).json() == []


async def test_a_paused_lane_starts_no_run_until_it_is_resumed(premises: Premises) -> None:
    assert (await premises.http.post("/api/queue/agents/coder/pause")).json() == {"ok": True}
    await premises.send("@coder build it")

    lanes = (await premises.http.get("/api/queue/agents")).json()
    assert (lanes[0]["paused"], lanes[0]["pending"], lanes[0]["queued"]) == (True, 1, 0)
    assert premises.puppet.requests == []

    assert (await premises.http.post("/api/queue/agents/coder/resume")).json() == {"ok": True}
    await premises.drained()
    assert premises.puppet.prompts_of("coder") == ["build it"]
    audit = (await premises.http.get("/api/audit")).json()
    assert [(entry["action"], entry["target"]) for entry in audit] == [
        ("resume_lane", "coder"),
        ("pause_lane", "coder"),
    ]


@pytest.mark.parametrize("move", ["pause", "resume"])
async def test_a_lane_without_an_agent_cannot_be_paused_or_resumed(premises: Premises, move: str) -> None:
    answer = await premises.http.post(f"/api/queue/agents/nobody/{move}")

    assert answer.status_code == 404
    assert "nobody" in answer.json()["error"]
    assert await premises.store.lanes.all() == ()


async def test_a_dead_message_is_listed_with_its_error(premises: Premises) -> None:
    dead = await a_dead_message(premises)

    assert dead["data"] == {
        "channel": "web",
        "sender": "Ada",
        "senderId": "4711",
        "message": "@coder break",
        "messageId": dead["conversationId"],
        "agent": "coder",
    }
    assert (dead["failedReason"], dead["attemptsMade"]) == ("exit code 1: boom", 5)
    assert dead["timestamp"] <= dead["failedAt"] <= wall_clock()


async def test_dead_messages_are_filtered_by_agent(premises: Premises) -> None:
    await a_dead_message(premises)

    assert len((await premises.http.get("/api/queue/dead", params={"agent": "coder"})).json()) == 1
    assert (await premises.http.get("/api/queue/dead", params={"agent": "writer"})).json() == []


@pytest.mark.parametrize(
    ("body", "prompt"), [(b"", "break"), (b"{}", "break"), (b"null", "break"), (b'{"message": "mend it"}', "mend it")]
)
async def test_a_dead_message_is_retried_with_its_text_or_a_new_one(
    premises: Premises, body: bytes, prompt: str
) -> None:
    dead = await a_dead_message(premises)
    del premises.puppet.plays["coder"]

    answer = await premises.http.post(f"/api/queue/dead/{dead['id']}/retry", content=body)

    assert answer.json() == {"ok": True}
    await premises.drained()
    assert premises.puppet.prompts_of("coder")[-1] == prompt
    assert (await premises.http.get("/api/queue/dead")).json() == []


@pytest.mark.parametrize("body", [b'{"message": " "}', b'{"message": ""}', b'{"message": "\\ud800"}', b"[]", b"{"])
async def test_a_retry_with_an_invalid_body_is_refused(premises: Premises, body: bytes) -> None:
    dead = await a_dead_message(premises)

    answer = await premises.http.post(f"/api/queue/dead/{dead['id']}/retry", content=body)

    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}
    assert len((await premises.http.get("/api/queue/dead")).json()) == 1


async def test_a_deleted_dead_message_cannot_be_retried(premises: Premises) -> None:
    dead = await a_dead_message(premises)

    assert (await premises.http.delete(f"/api/queue/dead/{dead['id']}")).json() == {"ok": True}
    assert (await premises.http.get("/api/queue/dead")).json() == []
    assert (await premises.http.delete(f"/api/queue/dead/{dead['id']}")).status_code == 404
    assert (await premises.http.post(f"/api/queue/dead/{dead['id']}/retry")).status_code == 404
    (deleted,) = await premises.events("message_deleted")
    assert deleted.payload["reason"].startswith("deleted by ")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/queue/dead/0/retry"),
        ("POST", "/api/queue/dead/x/retry"),
        ("DELETE", f"/api/queue/dead/{TOO_LARGE}"),
        ("POST", f"/api/queue/processing/{TOO_LARGE}/kill"),
        ("POST", "/api/queue/agents/Not An Id/pause"),
        ("GET", "/api/queue/dead?limit=0"),
        ("GET", "/api/queue/dead?limit=1001"),
        ("GET", "/api/queue/dead?agent=../etc"),
    ],
)
async def test_malformed_names_and_numbers_are_refused(premises: Premises, method: str, path: str) -> None:
    answer = await premises.http.request(method, path)

    assert answer.status_code == 400
    assert answer.json().keys() == {"error"}


async def test_concurrent_kills_of_one_run_are_both_answered(premises: Premises) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    await premises.send("@coder build it")
    await gate.reached.wait()
    (running,) = (await premises.http.get("/api/queue/processing")).json()

    path = f"/api/queue/processing/{running['id']}/kill"
    answers = await asyncio.gather(premises.http.post(path), premises.http.post(path))

    killed = [answer.json().get("processKilled") for answer in answers]
    assert killed.count(True) == 1
    assert {answer.status_code for answer in answers} <= {200, 404}
