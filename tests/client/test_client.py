"""The client against a real server, on every route."""

import re
from contextlib import aclosing
from datetime import timedelta

import httpx
import pytest

from tests.server.conftest import Premises
from tests.support.puppet import Gate
from tinyagi.api.agents import AgentFields, NewHeartbeat
from tinyagi.api.board import NewComment, NewProject, NewTask, ProjectChanges, Reorder, TaskChanges
from tinyagi.api.channels import RelayReport
from tinyagi.api.messages import MessageSent, SendMessage, SendResponse
from tinyagi.api.settings import ProviderFields
from tinyagi.api.teams import PostLine, TeamFields
from tinyagi.client.client import AsyncClient
from tinyagi.client.errors import ConflictError, NotFoundError, NotPaired, Rejected, Unauthorized
from tinyagi.domain.board import TaskStatus
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.providers.base import RunFailed, RunRequest

WITHOUT_CALL = {"/api/login", "/api/logout", "/metrics", "/docs", "/docs/{name}", "/"}
"""Routes for browsers and for Prometheus, without a client call."""


def failing(request: RunRequest) -> str:
    raise RunFailed(Failure(FailureKind.MESSAGE, "it does not work"))


async def test_a_message_is_answered_and_traced(premises: Premises, client: AsyncClient) -> None:
    async with aclosing(client.events()) as events:
        assert (await anext(events)).type == "connected"
        sent = await client.send(SendMessage(message="@coder hello", channel="cli", sender="Ada"))
        seen = []
        async for event in events:
            seen.append(event.type)
            if event.type == "response_ready":
                break

    assert event.conversation_id == sent.conversation_id
    assert seen[0] == "message_received"
    trace = await client.conversations.trace(sent.conversation_id)
    assert (trace.status, trace.spans[0].answer) == ("done", "echo: hello")
    assert [one.id for one in await client.conversations.recent()] == [sent.conversation_id]
    assert [line.content for line in await client.agents.messages("coder")] == ["echo: hello", "@coder hello"]


async def test_past_events_come_first(premises: Premises, client: AsyncClient) -> None:
    await client.queue.pause("coder")
    async with aclosing(client.events(after=0, types=("lane_paused",), agent="coder")) as events:
        types = [(await anext(events)).type, (await anext(events)).type]

    assert types == ["connected", "lane_paused"]


async def test_the_server_token_is_required(closed_premises: Premises) -> None:
    closed_premises.token = "a-token-of-some-length"
    async with closed_premises.serve() as served:
        url = f"http://127.0.0.1:{served.port}"
        async with AsyncClient(url, served.token) as client, AsyncClient(url) as stranger:
            assert (await client.status()).ok
            with pytest.raises(Unauthorized):
                await stranger.status()
            with pytest.raises(Unauthorized):
                await anext(stranger.events())


async def test_dead_messages_are_listed_retried_and_deleted(premises: Premises, client: AsyncClient) -> None:
    premises.puppet.plays["coder"] = failing
    await client.send(SendMessage(message="hello", agent="coder"))
    await premises.until_event("message_dead")
    (dead,) = await client.queue.dead(agent="coder")
    assert dead.failed_reason == "it does not work"

    premises.puppet.plays.clear()
    await client.queue.retry(dead.id, "hello again")
    await premises.drained()

    assert await client.queue.dead() == []
    with pytest.raises(NotFoundError):
        await client.queue.delete(dead.id)


async def test_a_run_is_listed_and_killed(premises: Premises, client: AsyncClient) -> None:
    premises.puppet.plays["coder"] = gate = Gate()
    await client.send(SendMessage(message="hello", agent="coder"))
    await gate.reached.wait()
    (running,) = await client.queue.processing()

    killed = await client.queue.kill(running.id)

    assert (killed.agent, killed.process_killed) == ("coder", True)
    await premises.until_event("message_stopped")


async def test_a_repeated_message_is_a_conflict(premises: Premises, client: AsyncClient) -> None:
    message = SendMessage(message="hello", message_id="once")
    await client.send(message)

    with pytest.raises(ConflictError):
        await client.send(message)


async def test_the_servers_error_message_reaches_the_caller(premises: Premises, client: AsyncClient) -> None:
    with pytest.raises(Rejected, match=r"There is no agent or team 'nobody'\. There are: coder"):
        await client.send(SendMessage(message="hello", agent="nobody"))


async def test_names_are_escaped_in_the_path(premises: Premises, client: AsyncClient) -> None:
    with pytest.raises(NotFoundError, match=r"a/b\?c#d"):
        await client.conversations.trace("a/b?c#d")
    with pytest.raises(NotFoundError):
        await client.pairing.unpair("telegram", "../approve?x")


async def test_the_client_has_a_call_for_every_route(premises: Premises, client: AsyncClient) -> None:
    asked: set[tuple[str, str]] = set()

    async def remember(request: httpx.Request) -> None:
        asked.add((request.method.lower(), request.url.raw_path.decode().partition("?")[0]))

    client._transport._http.event_hooks["request"].append(remember)
    await call_every_route(premises, client)
    document = (await premises.http.get("/openapi.json")).json()
    routes = {(method, path) for path, methods in document["paths"].items() for method in methods} - {
        (method, path) for method in ("get", "post") for path in WITHOUT_CALL
    }

    missing = {route for route in routes if not any(_fits(route, one) for one in asked)}

    assert missing == set()


def _fits(route: tuple[str, str], asked: tuple[str, str]) -> bool:
    pattern = re.sub(r"\\\{[^}]*\\\}", "[^/]+", re.escape(route[1]))
    return route[0] == asked[0] and re.fullmatch(pattern, asked[1]) is not None


async def call_every_route(premises: Premises, client: AsyncClient) -> None:
    """Call everything once; each answer is validated by its type."""
    await _read_everything(client)
    await _agents_and_teams(client)
    await _board(client)
    await _people(premises, client)
    await _channel(premises, client)
    await _queue(client)
    await _waiting(client)
    async with aclosing(client.events(patience=timedelta())) as events:
        await anext(events)


async def _waiting(client: AsyncClient) -> None:
    await client.queue.pause("tester")
    for number in range(3):
        await client.send(SendMessage(message="wait", agent="tester", message_id=f"cli_w/{number}"))
    waiting = await client.queue.waiting(agent="tester", after=0, limit=10)
    assert [one.reason for one in waiting] == ["paused"] * 3
    assert (await client.queue.cancel(waiting[0].message_id)).id == waiting[0].id
    assert (await client.queue.move(waiting[1].message_id, "writer")).agent == "writer"
    assert await client.queue.cancel_all("tester") == 1
    await client.queue.resume("tester")


async def _read_everything(client: AsyncClient) -> None:
    assert (await client.status()).agents == 3
    await client.queue.status()
    await client.queue.lanes()
    await client.logs(limit=1)
    await client.audit(limit=1)
    await client.plugins()
    await client.event_log(after=0, limit=1, type="lane_paused")
    await client.teams.chats()
    await client.conversations.recent(limit=1)
    await client.agents.messages_of_all(limit=1)
    await client.responses.recent(limit=1)
    await client.agents.messages("coder", limit=1, since_id=1, before_id=9)
    assert await client.analytics.tables() == []
    with pytest.raises(NotFoundError):
        await client.analytics.rows("agent_hourly", since="2026-01-01", limit=1)
    with pytest.raises(NotFoundError, match="nothing to recall"):
        await client.agents.recall("coder", "hello", limit=1)


async def _agents_and_teams(client: AsyncClient) -> None:
    saved = await client.agents.put("clerk", AgentFields(name="Clerk", provider="scripted"))
    assert saved.provisioned
    assert (await client.agents.all())["clerk"].name == "Clerk"
    await client.agents.skills("clerk")
    await client.agents.memory("clerk")
    await client.agents.put_system_prompt("clerk", "Be brief.")
    assert (await client.agents.system_prompt("clerk")).content == "Be brief."
    await client.agents.put_heartbeat("clerk", NewHeartbeat(interval=60))
    assert (await client.agents.heartbeat("clerk")).interval == 60
    await client.agents.reset("clerk")
    await client.teams.put("desk", TeamFields(name="Desk", agents=["clerk", "coder"], leader_agent="clerk"))
    assert (await client.teams.all())["desk"].leader_agent == "clerk"
    assert (await client.agents.delete("clerk", messages="dead")).leaders == {"desk": "coder"}
    await client.teams.delete("desk")
    key = "sk-1234567890abcdef"
    await client.providers.put("local", ProviderFields(harness="api", base_url="http://localhost/v1", api_key=key))
    assert (await client.providers.all())["local"].api_key == "••••cdef"
    await client.providers.delete("local")
    await client.settings.update({"models": {"provider": "scripted"}})
    await client.settings.set_up({"workspace": {"name": "Company"}})
    assert "agents" in await client.settings.read()
    await client.services.restart()
    await client.services.apply()
    for action in ("start", "stop", "restart"):
        with pytest.raises(NotFoundError):
            await client.services.channel("telegram", action)


async def _board(client: AsyncClient) -> None:
    project = await client.board.add_project(NewProject(name="Website"))
    await client.board.change_project(project.id, ProjectChanges(description="New"))
    assert (await client.board.project(project.id)).description == "New"
    assert len(await client.board.projects()) == 1
    task = await client.board.add_task(NewTask(title="Login", project_id=project.id))
    await client.board.change_task(task.id, TaskChanges(status=TaskStatus.TODO))
    assert (await client.board.task(task.id)).status is TaskStatus.TODO
    assert len(await client.board.tasks(project=project.id, status="todo")) == 1
    await client.board.reorder(Reorder(columns={TaskStatus.DONE: (task.id,)}))
    comment = await client.board.add_comment(task.id, NewComment(content="Good"))
    assert len(await client.board.comments(task.id)) == 1
    await client.board.delete_comment(comment.id)
    await client.board.delete_task(task.id)
    await client.board.delete_project(project.id)


async def _people(premises: Premises, client: AsyncClient) -> None:
    for person in ("1", "2"):
        await premises.store.pairing.ask("telegram", person, f"Person {person}")
    first, second = (await client.pairing.all()).pending
    assert (await client.pairing.approve(first.code)).sender == "Person 1"
    await client.pairing.reject(second.code)
    await client.pairing.unpair("telegram", "1")
    added = await client.schedules.add({"cron": "0 9 * * *", "agentId": "coder", "message": "Morning"})
    assert not (await client.schedules.change(added.id, {"enabled": False})).enabled
    assert len(await client.schedules.all()) == 1
    await client.schedules.delete(added.id)
    await client.responses.send(SendResponse(channel="web", sender="Ada", message="News"))
    (news,) = await client.responses.pending("web", limit=5)
    assert (await client.responses.fail(news.id, "offline")).retried
    await client.responses.ack(news.id)
    posted = await client.teams.post("dev", PostLine(message="hello"))
    assert [line.id for line in await client.teams.room("dev", limit=5, since=posted.id - 1)] == [posted.id]


async def _channel(premises: Premises, client: AsyncClient) -> None:
    """What a relay calls."""
    report = RelayReport(owner="test", connected=True, account="@bot")
    assert (await client.relays.report("telegram", report)).lease_seconds > 0
    assert (await client.status()).channels["telegram"].account == "@bot"
    await client.relays.release("telegram", "test")
    assert await client.relays.link_code("whatsapp") is None
    unknown = SendMessage(
        message="hi", channel="telegram", sender="Bob", sender_id="5", message_id="t_1", paired_only=True
    )
    (refused,) = await client.send_all([unknown])
    assert isinstance(refused, NotPaired)
    with pytest.raises(NotPaired):
        await client.send(unknown)
    checked = await client.pairing.check("telegram", "5", "Bob")
    assert (checked.code, checked.is_new, refused.is_new) == (refused.code, False, True)
    await client.pairing.approve(checked.code or "")
    sent, again, wrong = await client.send_all([unknown, unknown, SendMessage(message="hi", agent="nobody")])
    assert isinstance(sent, MessageSent)
    assert isinstance(again, ConflictError)
    assert isinstance(wrong, Rejected)
    source = premises.home.path / "a.txt"
    source.write_bytes(b"hello")
    stored = await client.files.store(source, "a.txt")
    copy = premises.home.path / "b.txt"
    assert await client.files.fetch(stored.path, copy) == stored.size == 5
    assert copy.read_bytes() == b"hello"
    with pytest.raises(NotFoundError):
        await client.files.fetch("/etc/passwd", premises.home.path / "c.txt")
    await client.responses.ack_all([999])


async def _queue(client: AsyncClient) -> None:
    sent = await client.send(SendMessage(message="hello", agent="coder", delay_seconds=60))
    await client.conversations.trace(sent.conversation_id)
    await client.queue.pause("coder")
    await client.queue.resume("coder")
    await client.queue.processing()
    await client.queue.dead()
    for act in (client.queue.kill, client.queue.retry, client.queue.delete):
        with pytest.raises(NotFoundError):
            await act(999)
