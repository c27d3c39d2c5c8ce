"""The blocking client, for programs without asyncio."""

import asyncio
from itertools import islice
from pathlib import Path

import pytest

import tinyagi
from tests.server.conftest import Premises
from tests.support.puppet import Gate
from tinyagi import Client, SendMessage
from tinyagi.client.errors import NoAnswer, NotRunning
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.providers.base import RunFailed, RunRequest


def failing(request: RunRequest) -> str:
    raise RunFailed(Failure(FailureKind.MESSAGE, "it does not work"))


def url_of(premises: Premises) -> str:
    return f"http://127.0.0.1:{premises.port}"


async def test_a_question_is_answered(premises: Premises) -> None:
    def program() -> tuple[str, str]:
        with Client(url_of(premises)) as client:
            reply = client.ask("@coder hello", timeout=30)
            return reply.text, reply.status

    assert await asyncio.to_thread(program) == ("echo: hello", "done")
    assert [one["status"] for one in (await premises.http.get("/api/responses")).json()] == ["acked"]


async def test_a_dead_message_raises_its_reason(premises: Premises) -> None:
    premises.puppet.plays["coder"] = failing

    def program() -> None:
        with Client(url_of(premises)) as client:
            client.ask("@coder hello", timeout=30)

    with pytest.raises(NoAnswer, match="it does not work"):
        await asyncio.to_thread(program)


async def test_a_timeout_leaves_the_message_running(premises: Premises) -> None:
    premises.puppet.plays["coder"] = gate = Gate()

    def program() -> None:
        with Client(url_of(premises)) as client:
            client.ask("@coder hello", timeout=0.2)

    with pytest.raises(TimeoutError, match=r"Conversation \w+ is still running after 0.2 s. Follow it: "):
        await asyncio.to_thread(program)
    await gate.reached.wait()
    assert (await premises.http.get("/api/queue/status")).json()["processing"] == 1


async def test_events_are_iterated_and_the_reader_may_stop(premises: Premises) -> None:
    def program() -> list[str]:
        with Client(url_of(premises)) as client:
            client.call(lambda api: api.queue.pause("coder"))
            return [event.type for event in islice(client.events(after=0, types=["lane_paused"]), 2)]

    assert await asyncio.to_thread(program) == ["connected", "lane_paused"]


async def test_a_channel_delivers_and_acknowledges(premises: Premises) -> None:
    def program() -> tuple[int, int]:
        with Client(url_of(premises)) as client:
            sent = client.send(SendMessage(message="@coder hello", channel="pager", sender="Ada"))
            events = client.events(after=0, conversation=sent.conversation_id, types=["response_ready"])
            list(islice(events, 2))
            delivered = client.pending("pager")
            for response in delivered:
                client.acknowledge(response.id)
            return len(delivered), len(client.pending("pager"))

    assert await asyncio.to_thread(program) == (1, 0)


async def test_the_daemon_of_this_machine_is_found(premises: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYAGI_API_PORT", str(premises.port))

    def program() -> bool:
        with Client() as client:
            return client.status().ok

    assert await asyncio.to_thread(program)


async def test_a_missing_daemon_is_reported_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYAGI_HOME", str(tmp_path))
    monkeypatch.setenv("TINYAGI_API_PORT", "1")

    def program() -> None:
        with Client() as client:
            client.status()

    with pytest.raises(NotRunning, match="tinyagi start"):
        await asyncio.to_thread(program)


def test_a_client_may_be_closed_twice() -> None:
    with Client("http://127.0.0.1:1") as client:
        client.close()


def test_the_package_exports_its_public_names() -> None:
    assert all(getattr(tinyagi, name).__name__ == name for name in tinyagi.__all__)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = tinyagi.nothing_of_the_kind
