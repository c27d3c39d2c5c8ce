"""In-chat commands."""

import pytest

from tests.channels.conftest import Front
from tests.support.puppet import Gate
from tinyagi.channels.commands import Command, parse

pytestmark = pytest.mark.timeout(30)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/help", Command("help", "")),
        ("!Stop", Command("stop", "")),
        ("/start", Command("help", "")),
        ("/agents", Command("agent", "")),
        (" /reset @coder, @writer ", Command("reset", "@coder, @writer")),
        ("@Coder", Command("sticky", "@coder")),
        ("@default", Command("sticky", "@default")),
        ("@coder hello", None),
        ("/etc/passwd", None),
        ("/compact", None),
        ("hello /help", None),
        ("/", None),
        ("", None),
    ],
)
def test_only_a_whole_text_is_a_command(text: str, command: Command | None) -> None:
    assert parse(text) == command


async def said(front: Front, text: str) -> str:
    """What the relay says to this message; answers of agents may come in between."""
    count = len(front.channel.sent)
    await front.channel.write(text, id=f"7.said-{count}")
    while not (found := [one for one in front.channel.sent if one.key.startswith(f"say-7.said-{count}-")]):
        count_now = len(front.channel.sent)
        await front.channel.until(count_now + 1)
    return found[0].text


async def test_help_lists_every_command(front: Front) -> None:
    async with front.relaying():
        answer = await said(front, "/help")
    for name in ("status", "agent", "team", "reset", "stop", "restart"):
        assert f"/{name}: " in answer
    assert await front.messages() == []


async def test_agents_and_teams_are_listed(front: Front) -> None:
    async with front.relaying():
        assert "@coder: Coder (scripted)" in await said(front, "/agent")
        assert await said(front, "!teams") == "@dev: @coder, @writer, @tester, led by @coder"


async def test_an_agent_alone_becomes_the_default_of_this_chat(front: Front) -> None:
    await front.pair("8")
    async with front.relaying():
        assert "now go to @writer" in await said(front, "@writer")
        await front.channel.write("hello")
        await front.channel.write("hello", person="8")
        await front.drained()
        assert front.puppet.prompts_of("writer") == ["hello"]
        assert "There is no agent or team @nobody" in await said(front, "@nobody")
        await said(front, "@default")
        await front.channel.write("hello again")
        await front.drained()
    assert front.puppet.prompts_of("writer") == ["hello"]


async def test_stop_ends_the_senders_own_run_only(front: Front) -> None:
    await front.pair("8")
    mine, other = Gate(), Gate()
    front.puppet.plays |= {"coder": mine, "writer": other}
    async with front.relaying():
        await front.channel.write("@coder work")
        await front.channel.write("@writer work", person="8")
        await mine.reached.wait()
        await other.reached.wait()
        await front.channel.write("/stop")
        sent = [one for one in await front.channel.until(2) if one.chat == "7"]
        assert "Stopped @coder." in [one.text for one in sent]
        assert any("stopped by" in one.text for one in sent), "the message itself says that it can be retried"
        assert front.puppet.cancelled == ["coder"]
        assert await said(front, "/stop") == "Nothing of yours is running."
        other.open.set()
        await front.drained()


async def test_status_says_what_runs_and_what_waits(front: Front) -> None:
    gate = Gate()
    front.puppet.plays["coder"] = gate
    async with front.relaying():
        assert await said(front, "/status") == "Nothing of yours is running or waiting."
        await front.channel.write("@coder build it")
        await gate.reached.wait()
        await front.channel.write("@coder test it")
        assert (await said(front, "/status")).splitlines() == [
            "@coder works on “@coder build it” for 0 s.",
            "“@coder test it” waits for @coder: the agent works on another message.",
        ]
        gate.open.set()
        await front.drained()


async def test_reset_forgets_the_sessions_of_known_agents(front: Front) -> None:
    async with front.relaying():
        assert await said(front, "/reset") == "Name the agents that forget their conversation: /reset @agent"
        assert "There is no agent @nobody" in await said(front, "/reset @nobody")
        assert "@coder, @writer will start a new conversation" in await said(front, "/reset @coder @writer")


async def test_restart_restarts_the_daemon(front: Front) -> None:
    async with front.relaying():
        assert "restarts once" in await said(front, "/restart")
    assert front.daemon.restarts == 1


async def test_a_stranger_cannot_use_commands(front: Front) -> None:
    async with front.relaying():
        await front.channel.write("/restart", person="8")
        (told,) = await front.channel.until(1)
    assert "Your code is" in told.text
    assert front.daemon.restarts == 0
