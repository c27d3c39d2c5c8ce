"""Waiting messages over HTTP: the list with the reason of each, cancelling and moving."""

import pytest

from tests.server.conftest import Premises
from tests.support.puppet import Gate
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.retry import Failure, FailureKind, RetryPolicy
from tinyagi.system.clock import wall_clock

CODER = AgentId("coder")
PATH = "/api/queue/messages"


async def test_an_empty_queue_has_no_waiting_messages(premises: Premises) -> None:
    assert (await premises.http.get(PATH)).json() == []


async def test_every_waiting_message_has_a_reason(premises: Premises) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    await premises.send("@coder runs", sender="Ada")
    await gate.reached.wait()
    await premises.store.lanes.pause(AgentId("writer"))
    until = wall_clock() + 3_600_000
    await premises.store.lanes.hold(AgentId("tester"), until=until, reason="no connection")
    later = NewMessage("later", CODER, available_at=until)
    for text in ("@coder one", "@coder two", "@writer hello", "@tester hello"):
        await premises.send(text, sender="Grace")
    await premises.store.queue.enqueue(later)

    runs, one, two, paused, held, delayed = range(1, 7)
    waiting = (await premises.http.get(PATH)).json()

    assert [(row["id"], row["reason"], row["behind"]) for row in waiting] == [
        (one, "busy", runs),
        (two, "thread", one),
        (paused, "paused", None),
        (held, "held", None),
        (delayed, "delayed", None),
    ]
    assert (waiting[3]["until"], waiting[3]["detail"]) == (until, "no connection")
    assert waiting[4]["until"] == until
    assert (waiting[0]["sender"], waiting[0]["message"], waiting[0]["attempt"]) == ("Grace", "@coder one", 1)
    gate.open.set()


async def test_a_message_in_back_off_shows_its_next_attempt_and_its_error(closed_premises: Premises) -> None:
    closed_premises.settings["queue"] = {"attempts": 4}
    async with closed_premises.serve() as premises:
        await premises.engine.stop()
        await premises.send("@coder fails", sender="Ada")
        claim = await premises.store.queue.claim(CODER)
        assert claim is not None
        slow = RetryPolicy(attempts=4)
        await premises.store.queue.fail(claim, Failure(FailureKind.MESSAGE, "exit code 1"), policy=slow)

        (row,) = (await premises.http.get(PATH)).json()
        status = (await premises.http.get("/api/queue/status")).json()

    assert (row["reason"], row["attempt"], row["attempts"], row["detail"]) == ("retry", 2, 4, "exit code 1")
    assert row["until"] > wall_clock()
    assert (status["retrying"], status["nextRetryAt"]) == (1, row["until"])


async def test_waiting_messages_are_paged_and_filtered_by_agent(premises: Premises) -> None:
    for agent in ("coder", "writer"):
        await premises.store.lanes.pause(AgentId(agent))
    for number in range(3):
        await premises.send(f"@coder {number}")
        await premises.send(f"@writer {number}")

    first = (await premises.http.get(PATH, params={"limit": 2})).json()
    second = (await premises.http.get(PATH, params={"limit": 2, "after": first[-1]["id"]})).json()
    writers = (await premises.http.get(PATH, params={"agent": "writer"})).json()

    assert [row["id"] for row in first + second] == [1, 2, 3, 4]
    assert {row["agent"] for row in writers} == {"writer"}
    assert len(writers) == 3


async def test_long_texts_are_shortened_in_the_list(premises: Premises) -> None:
    await premises.store.lanes.pause(CODER)
    await premises.send("@coder " + "x" * 10_000)

    (row,) = (await premises.http.get(PATH)).json()

    assert len(row["message"]) == 500


@pytest.mark.parametrize("by", ["id", "messageId"])
async def test_a_message_is_cancelled_by_its_number_or_its_message_id(premises: Premises, by: str) -> None:
    await premises.store.lanes.pause(CODER)
    await premises.send("@coder hello")
    (row,) = (await premises.http.get(PATH)).json()

    answer = await premises.http.delete(f"{PATH}/{row[by]}")

    assert answer.status_code == 200
    assert answer.json() == {"ok": True, "id": row["id"], "messageId": row["messageId"], "agent": "coder"}
    assert (await premises.http.get(PATH)).json() == []
    (dead,) = (await premises.http.get("/api/queue/dead")).json()
    assert dead["failedReason"] == "cancelled while it waited"
    (line,) = (await premises.http.get("/api/audit")).json()
    assert (line["action"], line["target"]) == ("cancel_message", str(row[by]))


async def test_every_message_of_an_agent_is_cancelled(premises: Premises) -> None:
    await premises.store.lanes.pause(CODER)
    await premises.store.lanes.pause(AgentId("writer"))
    for text in ("@coder one", "@coder two", "@writer three"):
        await premises.send(text, channel="web")

    answer = await premises.http.delete(PATH, params={"agent": "coder"})

    assert answer.json() == {"ok": True, "cancelled": 2}
    assert [row["agent"] for row in (await premises.http.get(PATH)).json()] == ["writer"]
    assert {response.message for response in await premises.responses()} == {
        "This message to @coder was cancelled before it was answered."
    }
    assert (await premises.http.delete(PATH)).status_code == 400


async def test_a_moved_message_is_run_by_the_other_agent(premises: Premises) -> None:
    await premises.store.lanes.pause(CODER)
    await premises.send("@coder hello")

    answer = await premises.http.post(f"{PATH}/1/move", json={"to": "writer"})

    assert (answer.status_code, answer.json()["agent"]) == (200, "writer")
    await premises.drained()
    assert [response.agent for response in await premises.responses()] == ["writer"]


@pytest.mark.parametrize(
    ("to", "status", "sentence"), [("nobody", 400, "no agent @nobody"), ("coder", 409, "already waits for @coder")]
)
async def test_a_move_to_an_invalid_agent_is_refused(premises: Premises, to: str, status: int, sentence: str) -> None:
    await premises.store.lanes.pause(CODER)
    await premises.send("@coder hello")

    answer = await premises.http.post(f"{PATH}/1/move", json={"to": to})

    assert answer.status_code == status
    assert sentence in answer.json()["error"]


async def test_only_a_waiting_message_is_cancelled_or_moved(premises: Premises) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    await premises.send("@coder runs")
    await gate.reached.wait()

    assert (await premises.http.delete(f"{PATH}/1")).status_code == 409
    assert (await premises.http.post(f"{PATH}/1/move", json={"to": "writer"})).status_code == 409
    assert (await premises.http.delete(f"{PATH}/4711")).status_code == 404
    assert (await premises.http.delete(f"{PATH}/cli_unknown")).status_code == 404
    with_slash = await premises.http.delete(f"{PATH}/a%2Fb")
    assert (with_slash.status_code, "'a/b'" in with_slash.json()["error"]) == (404, True)
    gate.open.set()
