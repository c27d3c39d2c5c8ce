"""The codex program: its command line, and less common output."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import SLEEP, a_run, call_of, executable, recorder
from tests.support.runs import RecordedProgress, failure_of
from tinyagi.domain.retry import FailureKind
from tinyagi.domain.runs import Endpoint, Permissions
from tinyagi.providers.codex import Codex

THREAD = "01a1e230-6119-7393-b14f-1625d11e8618"
STARTED = {"type": "thread.started", "thread_id": THREAD}


def said(text: str) -> dict[str, Any]:
    return {"type": "item.completed", "item": {"type": "agent_message", "text": text}}


def completed(*tokens: int) -> dict[str, Any]:
    names = ("input_tokens", "cached_input_tokens", "output_tokens")
    return {"type": "turn.completed", "usage": dict(zip(names, tokens, strict=True))}


ANSWER = (STARTED, said("ok"), completed(24, 6, 14))


async def call(tmp_path: Path, **fields: object) -> dict[str, Any]:
    await Codex(recorder(tmp_path, *ANSWER)).run(a_run(tmp_path, **fields), RecordedProgress())
    return call_of(tmp_path)


@pytest.mark.parametrize(
    ("permissions", "flags"),
    [
        (Permissions.BYPASS, ["--dangerously-bypass-approvals-and-sandbox"]),
        (Permissions.DEFAULT, []),
        (Permissions.PLAN, ["-c", 'sandbox_mode="read-only"', "-c", 'approval_policy="never"']),
    ],
)
async def test_the_command_line(tmp_path: Path, permissions: Permissions, flags: list[str]) -> None:
    fields = {"model": "gpt", "session_id": THREAD, "permissions": permissions, "prompt": "--help"}
    seen = await call(tmp_path, **fields)
    assert seen["arguments"] == [
        *("exec", "resume", THREAD, "--model", "gpt", "--skip-git-repo-check"),
        *(*flags, "--json", "-c", "check_for_update_on_startup=false"),
    ]
    assert seen["stdin"] == "--help"


async def test_instructions_go_into_a_temporary_file(tmp_path: Path) -> None:
    seen = await call(tmp_path, system_prompt='be "kind"\n' * 50_000)
    assert seen["file"] == 'be "kind"\n' * 50_000
    [option] = [argument for argument in seen["arguments"] if argument.startswith("model_instructions_file=")]
    assert not Path(option.partition("=")[2].strip('"')).parent.exists()


DAEMON = {"OPENAI_API_KEY": "daemon's", "CODEX_API_KEY": "daemon's", "CODEX_HOME": "/codex", "CODEX_THREAD_ID": "x"}


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        (Endpoint(), {"OPENAI_API_KEY": "daemon's", "CODEX_API_KEY": "daemon's"}),
        (Endpoint(api_key="k"), {"OPENAI_API_KEY": "k", "CODEX_API_KEY": "k"}),
        (Endpoint("http://x", "k"), {"OPENAI_BASE_URL": "http://x", "OPENAI_API_KEY": "k"}),
        (Endpoint("http://x"), {"OPENAI_BASE_URL": "http://x"}),
    ],
)
async def test_only_matching_credentials_of_the_daemon_are_passed_on(
    tmp_path: Path, endpoint: Endpoint, expected: dict[str, str]
) -> None:
    seen = await call(tmp_path, endpoint=endpoint, environment={**DAEMON, "ANTHROPIC_API_KEY": "another's"})
    ours = {n: v for n, v in seen["environment"].items() if n.startswith(("OPENAI", "CODEX", "ANTHROPIC"))}
    assert ours == {**expected, "CODEX_HOME": "/codex"}


@pytest.mark.parametrize(
    ("endpoint", "table"),
    [
        (Endpoint("http://x", "k"), {"base_url": "http://x", "wire_api": "responses", "env_key": "OPENAI_API_KEY"}),
        (Endpoint('http://x/"é'), {"base_url": 'http://x/"é', "wire_api": "responses"}),
    ],
)
async def test_a_custom_endpoint_is_configured_as_a_provider(
    tmp_path: Path, endpoint: Endpoint, table: dict[str, str]
) -> None:
    arguments = (await call(tmp_path, endpoint=endpoint))["arguments"]
    options = [option for option in arguments if option.startswith("model_provider")]
    assert tomllib.loads("\n".join(options)) == {
        "model_provider": "tinyagi",
        "model_providers": {"tinyagi": {"name": "TinyAGI", **table}},
    }


async def run_with(tmp_path: Path, session_id: str | None, state: str | None, *lines: object) -> tuple[object, ...]:
    request = a_run(tmp_path, session_id=session_id, session_state=state)
    result = await Codex(recorder(tmp_path, *lines)).run(request, RecordedProgress())
    usage = result.usage
    assert result.session_id == THREAD
    return usage.input_tokens, usage.cache_tokens, usage.output_tokens, result.session_state


MORE = (STARTED, said("ok"), completed(50, 10, 20))


async def test_the_usage_of_a_run_is_the_sum_of_the_thread_less_the_sum_before(tmp_path: Path) -> None:
    assert await run_with(tmp_path, None, None, *ANSWER) == (18, 6, 14, "24_6_14")
    assert await run_with(tmp_path, THREAD, "24_6_14", *MORE) == (22, 4, 6, "50_10_20")
    assert call_of(tmp_path)["arguments"][:3] == ["exec", "resume", THREAD]


async def test_a_session_id_of_an_earlier_version_carries_the_sum_before(tmp_path: Path) -> None:
    assert await run_with(tmp_path, f"{THREAD}_24_6_14", None, *MORE) == (22, 4, 6, "50_10_20")
    assert call_of(tmp_path)["arguments"][:3] == ["exec", "resume", THREAD]


@pytest.mark.parametrize("state", [None, "", "1_2", "1_2_x", "1_2_3_4"])
async def test_usage_is_unknown_without_the_earlier_usage_of_the_thread(state: str | None, tmp_path: Path) -> None:
    assert await run_with(tmp_path, THREAD, state, *ANSWER) == (None, None, None, "24_6_14")


async def test_a_sum_that_shrank_is_the_usage_of_the_run(tmp_path: Path) -> None:
    assert await run_with(tmp_path, THREAD, "900_6_14", *ANSWER) == (18, 6, 14, "24_6_14")


async def test_another_thread_than_requested_is_a_lost_session(tmp_path: Path) -> None:
    program = recorder(tmp_path, {**STARTED, "thread_id": "another"}, said("ok"), completed(24, 6, 14))
    request = a_run(tmp_path, session_id=THREAD, session_state="20_6_10")
    result = await Codex(program).run(request, RecordedProgress())
    assert (result.lost_session, result.session_id, result.session_state) == (True, "another", "24_6_14")
    assert result.usage.output_tokens == 14


async def test_the_last_message_is_the_answer_and_the_others_are_progress(tmp_path: Path) -> None:
    progress = RecordedProgress()
    change = {"type": "item.completed", "item": {"type": "file_change", "changes": [{"path": "a.py"}]}}
    search = {"type": "item.started", "item": {"type": "web_search", "query": "why"}}
    mcp = {"type": "item.started", "item": {"type": "mcp_tool_call", "server": "files", "tool": "list"}}
    program = recorder(tmp_path, STARTED, said("first"), change, search, mcp, said("last"), completed(1, 0, 1))
    assert (await Codex(program).run(a_run(tmp_path), progress)).text == "last"
    assert progress.pieces == ["first", "file_change: a.py", "web_search: why", "files: list", "last"]


async def test_an_empty_last_message_falls_back_to_the_one_before(tmp_path: Path) -> None:
    program = recorder(tmp_path, STARTED, said("first"), said(""), completed(1, 0, 1))
    assert (await Codex(program).run(a_run(tmp_path), RecordedProgress())).text == "first"


async def test_only_a_failed_turn_is_a_failure(tmp_path: Path) -> None:
    warning = {"type": "item.completed", "item": {"type": "error", "message": "careful"}}
    program = recorder(tmp_path, STARTED, warning, {"type": "error", "message": "hm"}, said("ok"), completed(1, 0, 1))
    assert (await Codex(program).run(a_run(tmp_path), RecordedProgress())).text == "ok"
    failed = {"type": "turn.failed", "error": {"message": "it broke"}}
    failure = await failure_of(Codex(recorder(tmp_path, STARTED, said("half"), failed)), a_run(tmp_path))
    assert (failure.kind, failure.reason) == (FailureKind.MESSAGE, "codex: it broke")


async def test_an_incomplete_turn_is_a_failure(tmp_path: Path) -> None:
    failure = await failure_of(Codex(recorder(tmp_path, STARTED, said("half"))), a_run(tmp_path))
    assert failure.reason == "codex ended before its answer was complete."


async def test_common_warnings_are_removed_from_the_reason(tmp_path: Path) -> None:
    stderr = "WARNING: proceeding, even though we could not do it\nReading prompt from stdin...\nError: boom\n"
    failure = await failure_of(Codex(recorder(tmp_path, code=2, stderr=stderr)), a_run(tmp_path))
    assert failure.reason == "codex: exit code 2: Error: boom"


async def test_a_program_waiting_for_the_network_is_ended(tmp_path: Path) -> None:
    line = '{"type":"error","message":"Reconnecting... waiting for network (Connection failed)"}'
    program = executable(tmp_path, f"for _ in range(5): print({line!r}, flush=True)\n{SLEEP}")
    failure = await failure_of(Codex(program), a_run(tmp_path))
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, False)
    assert "cannot reach its endpoint" in failure.reason
