"""Lists and traces on terminals of 60, 80 and 120 columns: every line fits, and no id is broken."""

import re

import pytest
from rich.console import Console

from tests.cli.conftest import Remote
from tests.server.conftest import Premises
from tinyagi.cli import terminal, trace, waterfall

LONG = "a-rather-long-agent-name"


@pytest.fixture(params=[60, 80, 120])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    columns: int = request.param

    def console_of_width(*, err: bool = False) -> Console:
        return Console(stderr=err, width=columns, color_system=None, highlight=False)

    for module in (terminal, trace):
        monkeypatch.setattr(module, "console", console_of_width)
    return columns


async def shown(remote: Remote, width: int, *arguments: str) -> str:
    result = await remote(*arguments)
    assert result.exit_code == 0, result.stderr
    assert [line for line in result.stdout.splitlines() if len(line) > width] == []
    return result.stdout


async def test_a_trace_fits(remote: Remote, premises: Premises, width: int) -> None:
    premises.puppet.plays["coder"] = lambda request: "Built, with a sentence that is too long. [@writer: document it]"
    premises.puppet.plays["writer"] = lambda request: "Documented. [@tester: test it]"
    result = await remote.json("send", "@dev build the login page for the new customers", "--wait")

    drawn = await shown(remote, width, "trace", result["conversationId"])
    listed = await shown(remote, width, "trace")

    assert drawn.splitlines()[0].startswith(result["conversationId"])
    rows = [line.strip() for line in drawn.splitlines() if waterfall.RUN in line]
    assert [re.split(r"  +", row)[0] for row in rows] == ["ada → @coder", "└ @writer", "└ @tester"]
    assert all(re.search(r"\d m?s", row) for row in rows), "the duration is always shown"
    assert result["conversationId"] in listed
    assert "#dev" in listed
    assert "done" in listed


async def test_the_lists_fit(remote: Remote, premises: Premises, width: int) -> None:
    name = "A Person With A Rather Long Name"
    await remote("agent", "add", LONG, "--name", "An agent with a long name", "--provider", "scripted")
    for agent in ("coder", LONG):
        await remote("queue", "pause", agent)
        await remote("send", f"@{agent} a text that is rather long, so that it is cut or wrapped", "--sender", name)
    await remote(
        "schedule", "add", "--cron", "0 9 * * 1-5", "--agent", LONG, "-m", "What is open?", "--label", "morning"
    )
    waiting = await remote.json("queue", "list")

    queue = await shown(remote, width, "queue", "list")
    lanes = await shown(remote, width, "queue", "status")
    whole = await shown(remote, width, "status")
    agents = await shown(remote, width, "agent", "list")
    schedules = await shown(remote, width, "schedule", "list")
    await remote("queue", "cancel", "--all", "--agent", LONG, "--yes")
    dead = await shown(remote, width, "queue", "dead")
    conversations = await shown(remote, width, "trace")

    for text in (queue, lanes, whole, agents, schedules, dead, conversations):
        assert f"@{LONG}" in text
    assert "open" in conversations
    assert all(message["messageId"] in queue for message in waiting)
    assert "morning" in schedules
    assert "0 9 * * 1-5" in schedules
