"""Waiting messages on the command line: listed with the reason, cancelled, moved."""

import asyncio

import pytest

from tests.cli.conftest import Remote, Shell
from tests.server.conftest import Premises, closed_premises
from tests.support.puppet import Gate
from tinyagi.domain.ids import AgentId
from tinyagi.domain.retry import Failure, FailureKind, HoldCause, RetryPolicy

__all__ = ["closed_premises"]

CODER = AgentId("coder")


async def test_an_empty_queue_says_so(remote: Remote) -> None:
    assert (await remote("queue", "list")).stdout == "No messages are waiting.\n"
    assert (await remote("queue", "list", "--agent", "@coder")).stdout == "No messages are waiting for @coder.\n"


async def test_waiting_messages_are_listed_with_the_reason(remote: Remote, premises: Premises) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    await remote("send", "@coder runs")
    await gate.reached.wait()
    await remote("queue", "pause", "writer")
    await remote("send", "@coder [b]one[/b]\x1b[2J", "--sender", "Grace")
    await remote("send", "@coder two", "--sender", "Grace")
    await remote("send", "@writer three")

    shown = (await remote("queue", "list")).stdout
    listed = await remote.json("queue", "list", "--limit", "2")

    assert "2  @coder  from Grace" in shown
    assert "@coder is running message 1" in shown
    assert "behind message 2 of its thread" in shown
    assert "@writer is paused. Resume it: tinyagi queue resume writer" in shown
    assert "[b]one[/b]" in shown
    assert "\x1b" not in shown
    assert [row["id"] for row in listed] == [2, 3]
    assert "the oldest 2" in (await remote("queue", "list", "--limit", "2")).stderr
    gate.open.set()


async def test_list_and_status_describe_a_hold_in_the_same_words(closed_premises: Premises) -> None:
    async with closed_premises.serve() as premises:
        await premises.engine.stop()
        remote = Remote(Shell(premises.home, str(premises.http.base_url)))
        until = premises.store.clock() + 3_600_000
        await premises.store.lanes.hold(CODER, until=until, reason="needs a fix: there is no key.", cause=HoldCause.FIX)
        await remote("send", "@coder hello")

        listed = (await remote("queue", "list")).stdout
        status = (await remote("queue", "status")).stdout

    state = "held: needs a fix: there is no key. To try again: tinyagi queue resume coder"
    assert f"@coder is {state}" in listed
    assert state in status


async def test_a_message_in_back_off_shows_its_next_attempt(closed_premises: Premises) -> None:
    async with closed_premises.serve() as premises:
        await premises.engine.stop()
        remote = Remote(Shell(premises.home, str(premises.http.base_url)))
        await remote("send", "@coder fails")
        claim = await premises.store.queue.claim(CODER)
        assert claim is not None
        await premises.store.queue.fail(claim, Failure(FailureKind.MESSAGE, "exit code 1"), policy=RetryPolicy())

        shown = (await remote("queue", "list")).stdout
        status = (await remote("queue", "status")).stdout
        whole = (await remote("status")).stdout

    assert "attempt 2 of " in shown
    assert ": exit code 1" in shown
    assert "1 message waits for another attempt, the next at " in status
    assert "1 message waits for another attempt, the next at " in whole


async def test_messages_are_cancelled_by_number_and_by_message_id(remote: Remote, premises: Premises) -> None:
    await remote("queue", "pause", "coder")
    await remote("send", "@coder one")
    await remote("send", "@coder two")
    one, two = await remote.json("queue", "list")

    result = await remote("queue", "cancel", str(one["id"]), two["messageId"], "--yes")

    assert result.exit_code == 0, result.stderr
    assert (
        f"Message {one['id']} to @coder is cancelled. Bring it back: tinyagi queue retry {one['id']}" in result.stdout
    )
    assert await remote.json("queue", "list") == []
    assert "cancelled while it waited" in (await remote("queue", "dead")).stdout
    again = await remote("queue", "cancel", str(one["id"]), "--yes")
    assert (again.exit_code, "no longer pending" in again.stderr) == (1, True)


@pytest.mark.parametrize("arguments", [("list",), ("dead",), ("cancel", "--all", "--yes")])
async def test_an_unknown_agent_is_a_usage_error(remote: Remote, arguments: tuple[str, ...]) -> None:
    result = await remote("queue", *arguments, "--agent", "@nobody")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "There is no agent @nobody. There are: coder, writer, tester." in result.stderr


async def test_all_messages_of_an_agent_are_cancelled(remote: Remote, premises: Premises) -> None:
    await remote("queue", "pause", "coder")
    await remote("send", "@coder one")
    await remote("send", "@coder two")

    refused = await remote("queue", "cancel", "--all", "--agent", "coder")
    done = await remote("queue", "cancel", "--all", "--agent", "@coder", "--yes")

    assert (refused.exit_code, done.stdout) == (2, "2 messages for @coder cancelled.\n")


@pytest.mark.parametrize("arguments", [(), ("--all",), ("--agent", "coder"), ("7", "--all", "--agent", "coder")])
def test_cancel_needs_messages_or_all_with_an_agent(shell: Shell, arguments: tuple[str, ...]) -> None:
    result = shell("queue", "cancel", *arguments, "--yes")

    assert result.exit_code == 2
    assert "--all together with --agent" in result.stderr


async def test_a_cancelled_message_ends_the_wait(remote: Remote, premises: Premises) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    await premises.send("@coder runs", sender="Grace")
    await gate.reached.wait()
    waiting = asyncio.create_task(remote("send", "@coder hello", "--wait"))

    async def is_stored() -> bool:
        return len(await premises.messages()) == 2

    await premises.until(is_stored)
    await premises.http.delete("/api/queue/messages/2")
    result = await waiting
    gate.open.set()

    assert result.exit_code == 1
    assert "cancelled while it waited" in result.stderr


async def test_a_message_is_moved(remote: Remote, premises: Premises) -> None:
    await remote("queue", "pause", "coder")
    await remote("send", "@coder hello")

    result = await remote("queue", "move", "1", "--to", "@writer")

    assert result.stdout == "Message 1 now waits for @writer.\n"
    await premises.drained()
    assert [response.agent for response in await premises.responses()] == ["writer"]
    unknown = await remote("queue", "move", "1", "--to", "nobody")
    assert (unknown.exit_code, "Agents: coder" in unknown.stderr) == (1, True)
