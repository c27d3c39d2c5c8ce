"""An agent's own token: the routes it opens, and the identity it gives the caller."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.server.conftest import TOKEN, Premises
from tinyagi.domain.ids import AgentId
from tinyagi.server.agent_scope import SKILLS
from tinyagi.settings.secrets import agent_token

CODER = agent_token(TOKEN, AgentId("coder"))
JSON = {"content-type": "application/json"}


@pytest.fixture
async def locked(closed_premises: Premises) -> AsyncIterator[Premises]:
    closed_premises.token = TOKEN
    async with closed_premises.serve() as served:
        yield served


@asynccontextmanager
async def bearer(premises: Premises, token: str = CODER) -> AsyncIterator[httpx.AsyncClient]:
    headers = {**JSON, "authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=premises.http.base_url, headers=headers, trust_env=False, timeout=30) as http:
        yield http


@pytest.fixture
async def coder(locked: Premises) -> AsyncIterator[httpx.AsyncClient]:
    async with bearer(locked) as client:
        yield client


def is_listed(method: str, path: str) -> bool:
    """True when SKILLS lists this operation of the OpenAPI document."""
    plain = re.sub(r"\{(?!self)[^}]+\}", "*", path.replace("/api/agents/{agent}/", "/api/agents/{self}/"))
    return any(method == listed and plain == re.sub(r"\*+", "*", pattern) for listed, pattern in SKILLS)


async def test_an_agent_may_call_exactly_the_listed_operations(locked: Premises, coder: httpx.AsyncClient) -> None:
    paths = (await locked.http.get("/openapi.json")).json()["paths"]
    operations = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    opened = set()
    for method, path in operations:
        filled = path.replace("{agent}", "coder").replace("{", "").replace("}", "")
        answer = await coder.request(method, filled, content=b"{}")
        if is_listed(method, path):
            assert answer.status_code not in {401, 403}, (method, path, answer.text)
            opened.add((method, path))
        else:
            assert answer.status_code == 403, (method, path, answer.text)
            assert "agents.coder.api_access" in answer.json()["error"]
    assert len(opened) == len(SKILLS)
    assert len(operations) > 60


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
        ("GET", "/nowhere"),
        ("HEAD", "/api/settings"),
        ("PATCH", "/api/tasks"),
        ("GET", "/api/tasks/../settings"),
        ("GET", "/api/tasks/%2e%2e/settings"),
        ("GET", "/api/agents/coder/../../settings"),
        ("GET", "/api/settings%0a"),
        ("GET", "/api/settings%3f/api/tasks"),
        ("POST", "/api/login"),
    ],
)
async def test_an_agent_cannot_call_an_unlisted_path(coder: httpx.AsyncClient, method: str, path: str) -> None:
    url = httpx.URL(str(coder.base_url)).copy_with(raw_path=path.encode())
    answer = await coder.request(method, url, content=b"{}")

    assert answer.status_code in {403, 404}, answer.text


@pytest.mark.parametrize("name", ["messages", "skills", "system-prompt", "memory", "heartbeat"])
async def test_an_agent_reads_only_its_own_pages(coder: httpx.AsyncClient, name: str) -> None:
    assert (await coder.get(f"/api/agents/coder/{name}")).status_code == 200
    assert (await coder.get(f"/api/agents/writer/{name}")).status_code == 403


async def test_an_agent_recalls_only_its_own_past(coder: httpx.AsyncClient) -> None:
    other = await coder.get("/api/recall", params={"agent": "writer", "q": "invoice"})
    own = await coder.get("/api/recall", params={"agent": "coder", "q": "invoice"})

    assert other.status_code == 403
    assert "agents.coder.api_access" in other.json()["error"]
    # Nothing is archived in this home.
    assert own.status_code == 404


async def test_full_access_is_still_audited_under_the_agents_name(closed_premises: Premises) -> None:
    closed_premises.token = TOKEN
    closed_premises.settings["agents"]["coder"]["api_access"] = "all"
    async with closed_premises.serve() as premises, bearer(premises) as coder:
        assert (await coder.get("/api/settings")).status_code == 200
        assert (await coder.get("/api/agents/writer/memory")).status_code == 200
        saved = await coder.put("/api/agents/writer", json={"name": "Scribe"}, headers={"x-tinyagi-client": "curl"})
        assert saved.status_code == 200
        (entry,) = (await premises.http.get("/api/audit")).json()
        assert entry["who"] == "curl (agent @coder, 127.0.0.1)"


async def test_a_changed_access_setting_applies_at_once(locked: Premises, coder: httpx.AsyncClient) -> None:
    assert (await coder.get("/api/settings")).status_code == 403
    await locked.http.put("/api/settings", json={"agents": {"coder": {"api_access": "all"}}})
    assert (await coder.get("/api/settings")).status_code == 200
    await locked.http.put("/api/settings", json={"agents": {"coder": {"api_access": "skills"}}})
    assert (await coder.get("/api/settings")).status_code == 403


async def test_an_agent_cannot_widen_its_own_access(locked: Premises, coder: httpx.AsyncClient) -> None:
    for method, path, body in (
        ("PUT", "/api/agents/coder", {"api_access": "all", "permissions": "bypass"}),
        ("PUT", "/api/settings", {"agents": {"coder": {"api_access": "all"}}}),
        ("POST", "/api/setup", {"agents": {"coder": {"api_access": "all"}}}),
    ):
        assert (await coder.request(method, path, json=body)).status_code == 403
    assert "api_access" not in (await locked.http.get("/api/agents")).json()["coder"]


FORGED = {
    "another agent's name": CODER.replace("coder", "writer"),
    "cut": CODER[:-1],
    "another server's": agent_token(f"{TOKEN}-changed", AgentId("coder")),
    "no signature": "agent.coder.",
    "no name": "agent..",
    "no id": agent_token(TOKEN, AgentId("../coder")),
}


@pytest.mark.parametrize("token", FORGED.values(), ids=FORGED.keys())
async def test_a_forged_token_is_refused(locked: Premises, token: str) -> None:
    async with bearer(locked, token) as stranger:
        assert (await stranger.get("/api/tasks")).status_code == 401
        assert (await stranger.post("/api/message", json={"message": "hello"})).status_code == 401


async def test_the_token_of_a_deleted_agent_is_refused(locked: Premises) -> None:
    async with bearer(locked, agent_token(TOKEN, AgentId("writer"))) as writer:
        assert (await writer.get("/api/tasks")).status_code == 200
        assert (await locked.http.delete("/api/agents/writer")).status_code == 200
        refused = await writer.get("/api/tasks")

    assert refused.status_code == 401
    assert "@writer" in refused.json()["error"]


async def test_an_agents_token_cannot_log_in(locked: Premises) -> None:
    async with httpx.AsyncClient(base_url=locked.http.base_url, trust_env=False, timeout=30) as office:
        assert (await office.post("/api/login", json={"token": CODER})).status_code == 401


async def test_an_agent_sends_in_its_own_name(locked: Premises, coder: httpx.AsyncClient) -> None:
    body = {"message": "hello", "agent": "writer", "sender": "Ada", "senderId": "4711", "channel": "cli"}
    assert (await coder.post("/api/message", json=body)).status_code == 200
    posted = await coder.post("/api/chatroom/dev", json={"message": "hello", "sender": "Ada"})

    (message,) = [one for one in await locked.messages() if one.channel == "cli"]
    assert (message.sender, message.sender_id) == ("coder", None)
    lines = (await coder.get("/api/chatroom/dev")).json()
    assert [line["from_agent"] for line in lines if line["id"] == posted.json()["id"]] == ["coder"]


@pytest.mark.parametrize("channel", ["telegram", "discord", "whatsapp"])
async def test_an_agent_cannot_write_as_a_person_in_a_chat(coder: httpx.AsyncClient, channel: str) -> None:
    refused = await coder.post("/api/message", json={"message": "hello", "channel": channel, "sender": "Ada"})

    assert refused.status_code == 403
    assert channel in refused.json()["error"]


async def test_an_agent_speaks_to_people_as_itself(coder: httpx.AsyncClient) -> None:
    to_ada = {"channel": "telegram", "sender": "Ada", "senderId": "4711", "message": "done"}
    refused = await coder.post("/api/responses", json={**to_ada, "agent": "writer"})

    assert refused.status_code == 403
    assert "@coder" in refused.json()["error"]
    for body in (to_ada, {**to_ada, "agent": "coder"}):
        assert (await coder.post("/api/responses", json=body)).status_code == 200
        assert (await coder.get("/api/responses?limit=1")).json()[0]["agent"] == "coder"


async def test_an_agent_comments_as_itself(coder: httpx.AsyncClient) -> None:
    task = (await coder.post("/api/tasks", json={"title": "Check links"})).json()["task"]["id"]
    comments = f"/api/tasks/{task}/comments"

    for forged in ({"author": "writer", "authorType": "agent"}, {"author": "Ada"}):
        assert (await coder.post(comments, json={"content": "done", **forged})).status_code == 403
    for own in ({}, {"author": "coder", "authorType": "agent"}):
        saved = await coder.post(comments, json={"content": "done", **own})
        assert saved.json()["comment"]["author"] == "coder"
        assert saved.json()["comment"]["authorType"] == "agent"


async def test_a_server_without_a_token_accepts_any_bearer(premises: Premises) -> None:
    async with bearer(premises) as client:
        assert (await client.get("/api/settings")).status_code == 200


async def test_an_agent_cannot_write_as_a_person_through_a_schedule(coder: httpx.AsyncClient) -> None:
    schedule = {"cron": "0 9 * * *", "agentId": "writer", "message": "hello", "label": "daily/report", "sender": "Ada"}
    for forged in ({**schedule, "channel": "telegram"}, {**schedule, "channel": "web"}):
        assert (await coder.post("/api/schedules", json=forged)).status_code == 403

    added = (await coder.post("/api/schedules", json=schedule)).json()["schedule"]
    refused = await coder.put("/api/schedules/daily%2Freport", json={"channel": "telegram"})
    changed = (await coder.put("/api/schedules/daily%2Freport", json={"sender": "Ada"})).json()["schedule"]

    assert refused.status_code == 403
    assert added["sender"] == changed["sender"] == "coder"
    assert (await coder.delete("/api/schedules/daily%2Freport")).status_code == 200


async def test_an_agent_reads_only_its_own_responses_and_conversations(
    locked: Premises, coder: httpx.AsyncClient
) -> None:
    for name in ("coder", "writer"):
        await locked.send(f"@{name} hello", channel="telegram", sender="Ada", message_id=f"for_{name}")
    await locked.drained()

    assert {row["agent"] for row in (await coder.get("/api/responses?limit=100")).json()} == {"coder"}
    assert (await coder.get("/api/traces/for_coder")).status_code == 200
    assert (await coder.get("/api/traces/for_writer")).status_code == 403
    for path in ("/api/conversations", "/api/queue/processing", "/api/queue/dead"):
        assert (await coder.get(path)).status_code == 403


async def test_an_agent_cannot_change_a_schedule_that_posts_to_a_chat(
    locked: Premises, coder: httpx.AsyncClient
) -> None:
    schedule = {"cron": "0 9 * * *", "agentId": "writer", "message": "hello", "label": "ada", "channel": "telegram"}
    schedule["senderId"] = "4711"
    assert (await locked.http.post("/api/schedules", json=schedule)).status_code == 200

    assert (await coder.put("/api/schedules/ada", json={"message": "forged"})).status_code == 403
