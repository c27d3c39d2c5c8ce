"""History over HTTP: the questions and answers of agents."""

import pytest

from tests.server.conftest import Premises
from tests.support.puppet import in_turn


async def test_questions_and_answers_are_listed_newest_first(premises: Premises) -> None:
    sent = await premises.send("@coder build it", sender="Ada", channel="web")
    await premises.send("@writer write it")
    await premises.drained()

    answer, question = (await premises.http.get("/api/agents/coder/messages")).json()

    assert question == {
        "id": question["id"],
        "agent_id": "coder",
        "role": "user",
        "channel": "web",
        "sender": "Ada",
        "message_id": sent.message_id,
        "content": "@coder build it",
        "created_at": question["created_at"],
        "from_agent": None,
    }
    assert (answer["role"], answer["content"]) == ("assistant", "echo: build it")
    assert answer["id"] > question["id"]


async def test_a_page_is_bounded_by_two_ids(premises: Premises) -> None:
    for number in range(3):
        await premises.send(f"@coder {number}")
        await premises.drained()
    ids = [line["id"] for line in (await premises.http.get("/api/agents/coder/messages")).json()]
    assert ids == sorted(ids, reverse=True)

    async def page(**query: int) -> list[int]:
        return [line["id"] for line in (await premises.http.get("/api/agents/coder/messages", params=query)).json()]

    assert await page(limit=2) == ids[:2]
    assert await page(before_id=ids[1], limit=2) == ids[2:4]
    assert await page(since_id=ids[2]) == ids[:2]
    assert await page(since_id=ids[4], before_id=ids[2]) == ids[3:4]


async def test_the_common_history_holds_every_agent(premises: Premises) -> None:
    await premises.send("@coder build it")
    await premises.drained()
    await premises.send("@writer write it")
    await premises.drained()

    lines = (await premises.http.get("/api/agent-messages", params={"limit": 3})).json()

    assert [(line["agent_id"], line["role"]) for line in lines] == [
        ("writer", "assistant"),
        ("writer", "user"),
        ("coder", "assistant"),
    ]


async def test_an_agent_without_history_gets_an_empty_list(premises: Premises) -> None:
    assert (await premises.http.get("/api/agents/tester/messages")).json() == []


@pytest.mark.parametrize("path", ["/api/agents/coder/messages", "/api/agent-messages"])
@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=ten", f"since_id={2**63}", "before_id=0", "since_id=-1"]
)
async def test_out_of_range_bounds_are_refused(premises: Premises, path: str, query: str) -> None:
    answer = await premises.http.get(f"{path}?{query}")

    assert answer.status_code == 400
    assert query.split("=", maxsplit=1)[0] in answer.json()["error"]


async def test_an_invalid_agent_id_is_refused(premises: Premises) -> None:
    assert (await premises.http.get("/api/agents/Not An Id/messages")).status_code == 400


async def test_internal_messages_are_shown_only_on_request(premises: Premises) -> None:
    premises.puppet.plays["coder"] = in_turn("Built. [@tester: test it] [#dev: it is built]", "ok")
    await premises.send("@coder build it", sender="Ada")
    await premises.http.post("/api/chatroom/dev", json={"message": "cake", "sender": "Ada"})
    await premises.drained()

    shown = (await premises.http.get("/api/agents/tester/messages")).json()
    everything = (await premises.http.get("/api/agents/tester/messages?internal=true")).json()
    of_all = (await premises.http.get("/api/agent-messages")).json()
    all_of_all = (await premises.http.get("/api/agent-messages?internal=true")).json()

    assert {line["role"] for line in shown} == {"assistant"}
    asked = {line["content"].partition("\n")[0]: line["from_agent"] for line in everything if line["role"] == "user"}
    assert asked == {
        "[Message from teammate @coder]:": "coder",
        "[Chat room #dev — @coder]:": "coder",
        "[Chat room #dev — @Ada]:": None,
    }
    assert [line["content"] for line in of_all if line["role"] == "user"] == ["@coder build it"]
    assert len(all_of_all) > len(of_all)
