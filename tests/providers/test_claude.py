"""The claude program: its command line, and less common output."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import SLEEP, a_run, call_of, executable, recorder
from tests.support.replay import Replay
from tests.support.runs import RecordedProgress, failure_of
from tinyagi.domain.retry import FailureKind
from tinyagi.domain.runs import Endpoint, Permissions, RunLimits
from tinyagi.providers.base import RunFailed
from tinyagi.providers.claude import Claude

INIT = {"type": "system", "subtype": "init", "session_id": "abc", "model": "claude-x"}
DONE = {"type": "result", "is_error": False, "result": "ok", "session_id": "abc"}


def said(text: str, **fields: object) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}, **fields}


async def call(tmp_path: Path, **fields: object) -> dict[str, Any]:
    await Claude(recorder(tmp_path, DONE)).run(a_run(tmp_path, **fields), RecordedProgress())
    return call_of(tmp_path)


@pytest.mark.parametrize(
    ("permissions", "flags"),
    [
        (Permissions.BYPASS, ["--dangerously-skip-permissions"]),
        (Permissions.DEFAULT, []),
        (Permissions.PLAN, ["--permission-mode", "plan"]),
    ],
)
async def test_the_command_line(tmp_path: Path, permissions: Permissions, flags: list[str]) -> None:
    fields = {"model": "opus", "system_prompt": "be\nkind", "session_id": "abc", "permissions": permissions}
    arguments = (await call(tmp_path, **fields))["arguments"]
    assert arguments == [
        *(*flags, "--model", "opus", "--system-prompt-file", arguments[len(flags) + 3]),
        *("--resume", "abc", "--system-prompt-snapshot", "off"),
        *("--output-format", "stream-json", "--verbose", "-p"),
    ]


async def test_empty_fields_are_not_on_the_command_line(tmp_path: Path) -> None:
    fields = {"permissions": Permissions.DEFAULT}
    assert (await call(tmp_path, **fields))["arguments"] == ["--output-format", "stream-json", "--verbose", "-p"]


@pytest.mark.parametrize("prompt", ["--help", "$(touch x) `id`; 'x' \"y\" \\", "日本 \U0001f600", "x" * 1_000_000])
async def test_the_prompt_goes_through_stdin_unchanged(tmp_path: Path, prompt: str) -> None:
    seen = await call(tmp_path, prompt=prompt)
    assert seen["stdin"] == prompt
    assert prompt not in seen["arguments"]


async def test_nul_bytes_and_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    seen = await call(tmp_path, prompt="a\x00b\ud800c", system_prompt="d\x00e\udfff")
    assert seen["stdin"] == "a\ufffdb\ufffdc"
    assert seen["file"] == "d\ufffde\ufffd"


@pytest.mark.parametrize("instructions", ["be kind", "é" * 100_000])
async def test_instructions_go_into_a_temporary_file(tmp_path: Path, instructions: str) -> None:
    seen = await call(tmp_path, system_prompt=instructions)
    assert seen["file"] == instructions
    assert instructions not in seen["arguments"]
    path = seen["arguments"][seen["arguments"].index("--system-prompt-file") + 1]
    assert not Path(path).parent.exists()


DAEMON = {
    "ANTHROPIC_API_KEY": "daemon's",
    "CLAUDE_CODE_OAUTH_TOKEN": "daemon's",
    "ANTHROPIC_CUSTOM_HEADERS": "x: daemon's",
    "ANTHROPIC_MODEL": "kept",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "CLAUDE_CODE_SSE_PORT": "1",
    "OPENAI_API_KEY": "another's",
    "TELEGRAM_BOT_TOKEN": "secret",
}


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        (
            Endpoint(),
            {
                "ANTHROPIC_API_KEY": "daemon's",
                "CLAUDE_CODE_OAUTH_TOKEN": "daemon's",
                "ANTHROPIC_CUSTOM_HEADERS": "x: daemon's",
            },
        ),
        (Endpoint(api_key="k"), {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_CUSTOM_HEADERS": "x: daemon's"}),
        (Endpoint(None, None, "t"), {"CLAUDE_CODE_OAUTH_TOKEN": "t", "ANTHROPIC_CUSTOM_HEADERS": "x: daemon's"}),
        (
            Endpoint(base_url="http://x", api_key="k"),
            {"ANTHROPIC_BASE_URL": "http://x", "ANTHROPIC_AUTH_TOKEN": "k", "ANTHROPIC_API_KEY": ""},
        ),
    ],
)
async def test_only_matching_credentials_of_the_daemon_are_passed_on(
    tmp_path: Path, endpoint: Endpoint, expected: dict[str, str]
) -> None:
    seen = (await call(tmp_path, endpoint=endpoint, environment=DAEMON))["environment"]
    ours = {
        name: value for name, value in seen.items() if name.startswith(("ANTHROPIC", "CLAUDE", "OPENAI", "TELEGRAM"))
    }
    assert ours == {**expected, "ANTHROPIC_MODEL": "kept"}
    assert seen["TINYAGI_AGENT_ID"] == "coder"
    assert seen["DISABLE_AUTOUPDATER"] == "1"


async def test_an_older_program_is_resumed_without_the_unknown_option(tmp_path: Path) -> None:
    source = f"""
import sys
if "--system-prompt-snapshot" in sys.argv:
    sys.exit("error: unknown option '--system-prompt-snapshot'")
assert "--resume" in sys.argv
print({json.dumps(DONE)!r})
"""
    result = await Claude(executable(tmp_path, source)).run(a_run(tmp_path, session_id="abc"), RecordedProgress())
    assert (result.text, result.session_id, result.lost_session) == ("ok", "abc", False)


async def test_an_older_program_gets_its_instructions_as_an_argument(tmp_path: Path) -> None:
    source = f"""
import sys
if "--system-prompt-file" in sys.argv:
    sys.exit("error: unknown option '--system-prompt-file'")
assert sys.argv[sys.argv.index("--system-prompt") + 1] == "be kind"
print({json.dumps(DONE)!r})
"""
    result = await Claude(executable(tmp_path, source)).run(
        a_run(tmp_path, system_prompt="be kind"), RecordedProgress()
    )
    assert result.text == "ok"


async def test_an_empty_result_falls_back_to_the_last_message(tmp_path: Path) -> None:
    helper = said("a helper's words", parent_tool_use_id="toolu_1")
    program = recorder(tmp_path, INIT, said("I am done."), helper, said(""), {**DONE, "result": ""})
    assert (await Claude(program).run(a_run(tmp_path), RecordedProgress())).text == "I am done."


@pytest.mark.parametrize("lines", [[], [INIT], [INIT, said("half an answer")]])
async def test_output_without_a_result_is_a_failure(tmp_path: Path, lines: list[object]) -> None:
    failure = await failure_of(Claude(recorder(tmp_path, *lines)), a_run(tmp_path))
    assert (failure.kind, failure.reason) == (FailureKind.MESSAGE, "claude ended before its answer was complete.")


async def test_an_error_with_a_success_subtype_is_a_failure(tmp_path: Path) -> None:
    result = {**DONE, "is_error": True, "subtype": "success", "result": "it broke", "total_cost_usd": 0.5}
    failure = await failure_of(Claude(recorder(tmp_path, INIT, result)), a_run(tmp_path))
    assert (failure.kind, failure.reason) == (FailureKind.MESSAGE, "claude: it broke")
    assert failure.usage is not None
    assert failure.usage.cost == 0.5


@pytest.mark.parametrize(
    ("case", "words"), [("logged_out", "run `claude` in a terminal and log in"), ("root", "root/sudo privileges")]
)
async def test_a_failure_that_needs_a_person_names_the_remedy(tmp_path: Path, case: str, words: str) -> None:
    failure = await failure_of(Claude(Replay(tmp_path, "claude", case).executable), a_run(tmp_path))
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, True)
    assert words in failure.reason


async def test_an_exit_code_with_a_result_is_a_failure(tmp_path: Path) -> None:
    failure = await failure_of(Claude(recorder(tmp_path, INIT, DONE, code=3, stderr="boom\n")), a_run(tmp_path))
    assert (failure.kind, failure.reason) == (FailureKind.MESSAGE, "claude: exit code 3: boom")


async def test_invalid_and_unknown_lines_are_ignored(tmp_path: Path) -> None:
    noise = ["Warning: something", "[" * 100_000, '{"type":', "null", "[]", '{"type":"assistant","message":7}']
    strange: list[object] = [{"type": "result", "result": 5}, {"type": ["x"]}, {"type": "news", "result": "no"}]
    result = await Claude(recorder(tmp_path, *noise, *strange, DONE)).run(a_run(tmp_path), RecordedProgress())
    assert result.text == "ok"


async def test_lone_surrogates_in_the_answer_are_replaced(tmp_path: Path) -> None:
    line = '{"type":"result","is_error":false,"result":"a\\ud800b \\ud83d\\ude00"}'
    result = await Claude(recorder(tmp_path, line)).run(a_run(tmp_path), RecordedProgress())
    assert result.text == "a\ufffdb \U0001f600"


async def test_an_answer_over_the_limit_is_a_failure(tmp_path: Path) -> None:
    request = a_run(tmp_path, limits=RunLimits(max_answer=10))
    failure = await failure_of(Claude(recorder(tmp_path, {**DONE, "result": "x" * 11})), request)
    assert failure.kind is FailureKind.MESSAGE
    assert "limit 10" in failure.reason


async def test_a_result_line_over_the_limit_is_reported(tmp_path: Path) -> None:
    program = recorder(tmp_path, INIT, {**DONE, "result": "x" * 17_000_000})
    failure = await failure_of(Claude(program), a_run(tmp_path))
    assert failure.reason == "claude ended before its answer was complete (lines too long to be read: 1)."


async def test_a_refused_key_ends_the_run_without_retries(tmp_path: Path) -> None:
    retries = [
        {"type": "system", "subtype": "api_retry", "attempt": n, "error_status": 401, "error": "authentication_failed"}
        for n in (1, 2)
    ]
    source = f"import json\nfor line in {retries!r}: print(json.dumps(line), flush=True)\n{SLEEP}"
    progress = RecordedProgress()
    with pytest.raises(RunFailed) as caught:
        await Claude(executable(tmp_path, source)).run(a_run(tmp_path), progress)
    failure = caught.value.failure
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, True)
    assert progress.pieces == ["waiting: authentication_failed (try 1)"]


async def test_a_usage_limit_sets_retry_after(tmp_path: Path) -> None:
    limit = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1_800_000_600}}
    result = {**DONE, "is_error": True, "result": "You've hit your session limit · resets 3pm (Europe/Berlin)"}
    claude = Claude(recorder(tmp_path, INIT, limit, result, code=1), now=lambda: 1_800_000_000.0)
    failure = await failure_of(claude, a_run(tmp_path))
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, False)
    assert failure.retry_after == timedelta(minutes=10)


async def test_invalid_amounts_are_not_counted(tmp_path: Path) -> None:
    line = '{"type":"result","result":"ok","total_cost_usd":NaN,"usage":{"input_tokens":-5,"output_tokens":true}}'
    usage = (await Claude(recorder(tmp_path, line)).run(a_run(tmp_path), RecordedProgress())).usage
    assert (usage.cost, usage.input_tokens, usage.output_tokens) == (0.0, 0, 0)


async def test_a_secret_in_the_output_is_masked_in_the_reason(tmp_path: Path) -> None:
    program = recorder(tmp_path, code=1, stderr="cannot use sk-secret for this")
    failure = await failure_of(Claude(program), a_run(tmp_path, endpoint=Endpoint(api_key="sk-secret")))
    assert failure.reason == "claude: exit code 1: cannot use *** for this"
