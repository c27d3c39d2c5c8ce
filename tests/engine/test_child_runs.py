"""The engine with real child processes that fail, hang, die or are stopped."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.engine.conftest import House, settled
from tinyagi.domain.messages import Status
from tinyagi.providers.claude import Claude

ANSWER = """echo '{"type":"result","is_error":false,"result":"done","session_id":"s1","usage":{"output_tokens":1}}'"""
HANG = 'echo $$ > "$PWD/pid"; exec sleep 300'


class Programs:
    """Stand-ins for the claude program, one per agent: a shell script each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        program = folder / "claude"
        program.write_text(f'#!/bin/sh\nread -r prompt\n. "{folder}/$TINYAGI_AGENT_ID.sh"\n')
        program.chmod(0o700)
        self.claude = Claude(executable=str(program))
        for agent in ("coder", "writer", "tester"):
            self.write(agent, ANSWER)

    def write(self, agent: str, script: str) -> None:
        (self._folder / f"{agent}.sh").write_text(script)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path / "bin")


@asynccontextmanager
async def opened(house: House, provider: object) -> AsyncIterator[None]:
    house.settings["queue"]["kill_grace_seconds"] = 0.5
    house.puppet = provider  # type: ignore[assignment]
    async with house.open():
        yield


async def pid_of(house: House, agent: str) -> int:
    file = house.folder / "workspace" / agent / "pid"
    await settled(lambda: file.exists() and bool(file.read_text().strip()))
    return int(file.read_text())


async def test_exit_code_1_is_retried_and_reported_with_the_last_output(house: House, programs: Programs) -> None:
    house.settings["queue"]["attempts"] = 3
    programs.write("coder", "echo 'Cannot find module left-pad' >&2; exit 1")
    async with opened(house, programs.claude):
        await house.send("@coder go", sender="Ada")
        await house.drained()
        (dead,) = await house.store.queue.dead()
        failed = await house.events("message_failed", "message_dead")
        (notice,) = await house.responses()

    assert [event.payload["attempt"] for event in failed] == [1, 2, 3]
    assert "left-pad" in (dead.last_error or "")
    assert (notice.sender, "left-pad" in notice.message) == ("Ada", True)


async def test_429_holds_the_lane_and_uses_no_attempt(house: House, programs: Programs) -> None:
    limited = (
        """echo '{"type":"result","subtype":"success","is_error":true,"result":"API Error: 429 rate_limit_error"}'"""
    )
    programs.write("coder", f'if [ -e "$PWD/second" ]; then {ANSWER}; else touch "$PWD/second"; {limited}; exit 1; fi')
    async with opened(house, programs.claude):
        await house.send("@coder go")
        held = await house.until_event("lane_held")
        await house.drained()
        (message,) = await house.messages()

    assert "429" in held.payload["reason"]
    assert (message.status, message.retry_count) == (Status.COMPLETED, 0)


async def test_a_missing_program_holds_the_lane_and_says_how_to_install_it(house: House) -> None:
    async with opened(house, Claude(executable="no-such-claude")):
        await house.send("@coder go", sender="Ada")
        held = await house.until_event("lane_held")
        (message,) = await house.messages()
        (notice,) = await house.responses()

    assert "npm install" in held.payload["reason"]
    assert (message.status, message.retry_count) == (Status.PENDING, 0)
    assert "no-such-claude" in notice.message


@pytest.mark.parametrize("limit", ["timeout_seconds", "idle_timeout_seconds"])
async def test_a_hanging_child_is_killed_at_each_time_limit(house: House, programs: Programs, limit: str) -> None:
    house.settings["agents"]["coder"][limit] = 0.3
    house.settings["queue"]["timeout_attempts"] = 1
    programs.write("coder", HANG)
    async with opened(house, programs.claude):
        await house.send("@coder go")
        pid = await pid_of(house, "coder")
        await house.drained()
        (dead,) = await house.store.queue.dead()

    assert limit in (dead.last_error or "")
    assert not psutil.pid_exists(pid)


async def test_a_child_killed_by_a_signal_is_a_failure(house: House, programs: Programs) -> None:
    house.settings["queue"]["attempts"] = 1
    programs.write("coder", HANG)
    async with opened(house, programs.claude):
        await house.send("@coder go")
        os.kill(await pid_of(house, "coder"), signal.SIGSEGV)
        await house.drained()
        (dead,) = await house.store.queue.dead()

    assert "SIGSEGV" in (dead.last_error or "")


async def test_stopping_a_run_ends_only_its_child_and_the_lane_continues(house: House, programs: Programs) -> None:
    programs.write("coder", f'if [ "$prompt" = hang ]; then {HANG}; fi; {ANSWER}')
    programs.write("writer", HANG)
    async with opened(house, programs.claude):
        await house.send("@coder hang")
        await house.send("@writer hang")
        await house.send("@coder go on")
        coder, writer = await asyncio.gather(pid_of(house, "coder"), pid_of(house, "writer"))
        running = {message.agent: message.id for message in await house.store.queue.processing()}

        assert await house.engine.stop_run(running["coder"], by="Ada")  # type: ignore[index]
        assert not psutil.pid_exists(coder)
        assert [dead.last_error for dead in await house.store.queue.dead()] == ["stopped by Ada"]
        await house.until_event("chain_step_done")
        assert psutil.pid_exists(writer)

        stopped, _, answered = await house.messages()
        os.kill(writer, signal.SIGKILL)

    assert (stopped.status, stopped.last_error) == (Status.DEAD, "stopped by Ada")
    assert answered.status is Status.COMPLETED


async def test_the_session_reported_by_a_child_is_resumed(house: House, programs: Programs) -> None:
    programs.write("coder", f'echo "$@" >> "$PWD/calls"; {ANSWER}')
    async with opened(house, programs.claude):
        await house.send("@coder first")
        await house.send("@coder second")
        await house.drained()

    first, second = (house.folder / "workspace" / "coder" / "calls").read_text().rstrip("\n").rsplit("\n", 1)
    assert "--resume s1" not in first
    assert "--resume s1" in second


async def test_output_of_a_child_is_published_while_it_runs(house: House, programs: Programs) -> None:
    text = """echo '{"type":"assistant","message":{"content":[{"type":"text","text":"I look into it."}]}}'"""
    programs.write("coder", f"{text}; {HANG}")
    async with opened(house, programs.claude):
        with house.engine.live.listening() as heard:
            await house.send("@coder go")
            progress = await heard.get()
        os.kill(await pid_of(house, "coder"), signal.SIGKILL)

    assert "I look into it." in progress.event.text
