"""Sending, and waiting until a conversation is over."""

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Remote, Shell
from tests.server.conftest import Premises
from tests.support.puppet import Gate
from tinyagi.domain.ids import AgentId
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.providers.base import RunFailed, RunRequest


def saying(text: str) -> object:
    return lambda request: text


def failing(request: RunRequest) -> str:
    raise RunFailed(Failure(FailureKind.MESSAGE, "the [red]disk\x1b[31m is full"))


async def test_a_message_is_stored_and_its_conversation_named(remote: Remote, premises: Premises) -> None:
    result = await remote("send", "@coder hello")

    (message,) = await premises.messages()
    assert (message.channel, message.sender, message.message) == ("cli", "ada", "@coder hello")
    assert f"tinyagi trace {message.conversation_id}" in result.stdout


async def test_an_unknown_name_is_a_warning(remote: Remote, premises: Premises) -> None:
    sent = await remote("send", "@nobody hello")
    waited = await remote("send", "@nobody hello", "--wait")
    as_json = await remote.json("send", "@nobody hello")

    expected = 'There is no agent or team "nobody"; the message went to @coder.'
    assert expected in sent.stderr
    assert expected in waited.stderr
    assert as_json["warning"] == expected


async def test_json_prints_the_servers_answer(remote: Remote) -> None:
    sent = await remote.json("send", "hello", "--agent", "@writer", "--sender", "Grace")

    assert sent["ok"]
    assert sent["messageId"] == sent["conversationId"]


async def test_the_text_may_come_from_a_pipe(remote: Remote, premises: Premises) -> None:
    await remote("send", "-", "--agent", "coder", stdin="a long\ntext\n")

    assert [message.message for message in await premises.messages()] == ["a long\ntext\n"]


async def test_waiting_prints_the_answer_and_nothing_else_on_stdout(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays["coder"] = saying("It is [b]done[/b].\x1b[2J")  # type: ignore[assignment]

    result = await remote("send", "@coder hello", "--wait")

    assert result.exit_code == 0, result.stderr
    assert result.stdout == "It is [b]done[/b].[2J\n\n"
    assert result.stderr == "@coder\n"


async def test_waiting_lasts_until_teammates_have_answered(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays |= {
        "coder": saying("Built. [@writer: document it] [@tester: test it]"),  # type: ignore[dict-item]
        "writer": saying("Documented."),  # type: ignore[dict-item]
        "tester": saying("Tested."),  # type: ignore[dict-item]
    }

    result = await remote("send", "@dev build it", "--wait")

    answers = result.stdout.split("\n\n")
    assert answers[0] == "Built. @coder → @writer: document it @coder → @tester: test it"
    assert sorted(answers[1:]) == ["", "Documented.", "Tested."]


async def test_waiting_covers_every_agent_that_a_text_names(remote: Remote) -> None:
    result = await remote.json("send", "[@coder: one] [@writer: two]", "--wait")

    assert {(answer["agent"], answer["text"]) for answer in result["answers"]} == {
        ("coder", "echo: one"),
        ("writer", "echo: two"),
    }
    assert (result["status"], len(result["messageIds"]), result["dead"]) == ("done", 2, [])


async def test_a_long_answer_is_printed_in_full(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays["coder"] = saying("word " * 5_000 + "end")  # type: ignore[assignment]

    result = await remote("send", "@coder hello", "--wait")

    assert result.stdout.strip().endswith("end")
    assert len(result.stdout) > 25_000


async def test_a_dead_message_is_reported_with_its_reason(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays["coder"] = failing

    result = await remote("send", "@coder hello", "--wait")

    assert result.exit_code == 1
    assert "@coder gave up: the [red]disk" in result.stderr
    assert "\x1b" not in result.stderr


async def test_an_unreachable_provider_is_reported_during_the_wait(remote: Remote, premises: Premises) -> None:
    def away(request: RunRequest) -> str:
        premises.puppet.plays.clear()
        raise RunFailed(Failure(FailureKind.UNAVAILABLE, "no connection"))

    premises.puppet.plays["coder"] = away

    result = await remote("send", "@coder hello", "--wait")

    assert result.exit_code == 0
    assert re.search(r"@coder is held until [:0-9]+: no connection; the message waits. To try", result.stderr)
    assert result.stderr.count("no connection") == 1
    assert result.stdout == "echo: hello\n\n"


async def test_a_failed_attempt_is_reported_with_the_time_of_the_next(remote: Remote, premises: Premises) -> None:
    def red(request: RunRequest) -> str:
        premises.puppet.plays.clear()
        raise RunFailed(Failure(FailureKind.MESSAGE, "tests are red."))

    await premises.engine.settings.save({"queue": {"attempts": 3, "retry_base_seconds": 2}})
    premises.puppet.plays["coder"] = red

    result = await remote("send", "@coder hello", "--wait")

    assert (result.exit_code, result.stdout.endswith("hello\n\n")) == (0, True)
    assert re.match(r"@coder failed: tests are red\. Attempt 2 of 3 at \d\d:\d\d:\d\d\.\n", result.stderr), (
        result.stderr
    )


def missing(request: RunRequest) -> str:
    raise RunFailed(Failure(FailureKind.UNAVAILABLE, "the program claude is missing", needs_person=True))


async def test_a_hold_that_needs_a_fix_ends_the_wait_with_exit_code_four(premises: Premises, remote: Remote) -> None:
    await premises.engine.settings.save({"queue": {"hold_base_seconds": 3600}})
    premises.puppet.plays["coder"] = missing

    first = await remote("send", "@coder hello", "--wait")
    second = await remote("send", "@coder hello again", "--wait")

    for result in (first, second):
        assert result.exit_code == 4
        assert (
            "@coder is held: needs a fix: the program claude is missing; the message waits. To try again: "
            in result.stderr
        )
        assert result.stderr.count("claude is missing") == 1
        assert "Another provider or key: tinyagi setup --agent coder\n" in result.stderr
        assert "tinyagi queue resume coder" in result.stderr
    assert [message.status for message in await premises.messages()] == ["pending", "pending"]


async def test_json_contains_the_held_lane(premises: Premises, remote: Remote) -> None:
    await premises.engine.settings.save({"queue": {"hold_base_seconds": 3600}})
    premises.puppet.plays["coder"] = missing

    result = await remote("send", "@coder hello", "--wait", "--json")

    output = json.loads(result.stdout)
    assert (result.exit_code, output["status"]) == (4, "held")
    reason = "needs a fix: the program claude is missing"
    assert output["held"] == [{"agent": "coder", "until": None, "reason": reason}]


async def test_a_paused_agent_is_not_waited_for(premises: Premises, remote: Remote) -> None:
    await remote("queue", "pause", "coder")

    result = await remote("send", "@coder hello", "--wait")

    assert result.exit_code == 4
    assert "@coder is paused; the message waits. Resume it: tinyagi queue resume coder" in result.stderr


async def test_other_agents_are_awaited_while_one_is_paused(premises: Premises, remote: Remote) -> None:
    await remote("queue", "pause", "coder")

    result = await remote("send", "[@coder: one] [@writer: two]", "--wait")

    assert (result.exit_code, result.stdout) == (4, "echo: two\n\n")


async def test_a_hold_with_an_end_is_waited_for(premises: Premises, remote: Remote) -> None:
    until = premises.store.clock() + 3_600_000
    await premises.store.lanes.hold(AgentId("coder"), until=until, reason="usage limit reached")
    waiting = asyncio.create_task(remote("send", "@coder hello", "--wait"))

    async def is_stored() -> bool:
        return bool(await premises.messages())

    await premises.until(is_stored)
    await premises.engine.settings.save({"agents": {"coder": {"provider": "openai"}}})
    result = await waiting

    assert (result.exit_code, result.stdout) == (0, "echo: hello\n\n")


async def test_the_timeout_applies_while_an_agent_is_held(premises: Premises, remote: Remote) -> None:
    until = premises.store.clock() + 3_600_000
    await premises.store.lanes.hold(AgentId("coder"), until=until, reason="usage limit reached")

    result = await remote("send", "@coder hello", "--wait", "--timeout", "3")

    assert result.exit_code == 1
    assert "held until" in result.stderr
    assert "usage limit reached" in result.stderr
    assert "tinyagi queue resume coder" in result.stderr


@pytest.mark.parametrize("options", [(), ("--json",)])
async def test_printed_answers_are_acknowledged(remote: Remote, premises: Premises, options: tuple[str, ...]) -> None:
    premises.puppet.plays["coder"] = saying("Built. [@writer: document it]")  # type: ignore[assignment]
    await remote("send", "@tester earlier, without waiting")
    await premises.drained()

    await remote("send", "@dev build it", "--wait", *options)

    delivered = {response.agent: response.status for response in await premises.responses()}
    assert delivered == {"tester": "pending", "coder": "acked", "writer": "acked"}


async def test_the_printed_notice_of_a_dead_message_is_acknowledged(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays["coder"] = failing

    await remote("send", "@coder hello", "--wait")

    assert [response.status for response in await premises.responses()] == ["acked"]


async def test_a_message_coalesced_into_another_run_is_answered(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays["coder"] = gate = Gate("both done")
    await remote("send", "@coder one")
    await gate.reached.wait()
    await remote("send", "@coder two")
    waiting = asyncio.create_task(remote("send", "@coder three", "--wait"))

    async def three_are_stored() -> bool:
        return len(await premises.messages()) == 3

    await premises.until(three_are_stored)
    gate.open.set()
    result = await waiting

    assert result.exit_code == 0
    assert result.stdout == "both done\n\n"


async def test_the_message_keeps_running_after_the_timeout(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays["coder"] = gate = Gate()

    result = await remote("send", "@coder hello", "--wait", "--timeout", "0.5")

    assert result.exit_code == 1
    assert "it goes on. Follow it: tinyagi trace cli_" in result.stderr
    gate.open.set()
    await premises.drained()
    assert [response.status for response in await premises.responses()] == ["pending"], "it was not printed"


async def test_an_interrupt_leaves_the_message_running(remote: Remote, premises: Premises) -> None:
    premises.puppet.plays["coder"] = gate = Gate()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tinyagi", "--home", str(premises.home.path), "--url", str(premises.http.base_url)),
        *("send", "@coder hello", "--wait"),
        stderr=asyncio.subprocess.PIPE,
    )
    await gate.reached.wait()
    os.kill(process.pid, signal.SIGINT)
    _, stderr = await process.communicate()

    assert process.returncode == 130
    assert b"goes on without you" in stderr
    gate.open.set()
    await premises.drained()
    assert [message.status for message in await premises.messages()] == ["completed"]


async def test_a_file_is_copied_into_the_home(premises: Premises, tmp_path: Path) -> None:
    file = tmp_path / "a plan (v2).txt"
    file.write_text("the plan")
    with_port = {**json.loads(premises.home.settings_file.read_text()), "server": {"port": premises.port}}
    premises.home.settings_file.write_text(json.dumps(with_port))

    result = await Remote(Shell(premises.home))("send", "@coder see this", "--file", str(file))

    assert result.exit_code == 0, result.stderr
    (message,) = await premises.messages()
    (copy,) = json.loads(message.files or "[]")
    assert Path(copy).parent == premises.home.files
    assert Path(copy).name.startswith("a_plan_v2")
    assert Path(copy).read_text() == "the plan"


async def test_a_wrong_argument_is_a_usage_error(remote: Remote, tmp_path: Path) -> None:
    nothing = await remote("send", " ")
    far = await remote("send", "hello", "--file", str(tmp_path))
    missing = await asyncio.to_thread(Shell(remote.shell.home), "send", "hello", "--file", str(tmp_path / "none"))
    unknown = await remote("send", "hello", "--agent", "nobody")

    assert (nothing.exit_code, far.exit_code, missing.exit_code, unknown.exit_code) == (2, 2, 2, 1)
    assert "nothing to send" in nothing.stderr
    assert "leave out --url" in far.stderr
    assert "there is no file" in missing.stderr
    assert "There are: coder" in unknown.stderr
