"""The opencode program: its command line, and less common output."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import a_run, call_of, recorder
from tests.support.runs import RecordedProgress, failure_of
from tinyagi.domain.limits import Usage
from tinyagi.domain.retry import FailureKind
from tinyagi.domain.runs import Endpoint, Permissions, Wire
from tinyagi.providers.opencode import Opencode

SESSION = "ses_1"


def line(kind: str, **part: object) -> dict[str, Any]:
    return {"type": kind, "sessionID": SESSION, "part": part}


def said(text: str, message: str = "msg_1") -> dict[str, Any]:
    return line("text", messageID=message, text=text)


def finished(cost: float = 0.5) -> dict[str, Any]:
    tokens = {"input": 10, "output": 5, "reasoning": 1, "cache": {"read": 2, "write": 3}}
    return line("step_finish", reason="stop", tokens=tokens, cost=cost)


async def call(tmp_path: Path, **fields: object) -> dict[str, Any]:
    await Opencode(recorder(tmp_path, said("ok"), finished())).run(a_run(tmp_path, **fields), RecordedProgress())
    return call_of(tmp_path)


def configuration(seen: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(seen["environment"]["OPENCODE_CONFIG_CONTENT"]))


async def test_the_command_line(tmp_path: Path) -> None:
    seen = await call(tmp_path, model="a/b", session_id=SESSION, system_prompt="be kind", prompt="--help")
    assert seen["arguments"] == [
        *("run", "--format", "json", "--model", "a/b"),
        *("--session", SESSION, "--agent", "tinyagi"),
    ]
    assert seen["stdin"] == "--help"
    assert configuration(seen)["agent"] == {"tinyagi": {"mode": "primary", "prompt": "be kind"}}


async def test_a_new_session_has_the_agents_name_as_its_title(tmp_path: Path) -> None:
    assert (await call(tmp_path))["arguments"] == ["run", "--format", "json", "--title", "coder"]


@pytest.mark.parametrize(
    ("permissions", "expected"),
    [
        (Permissions.BYPASS, {"*": "allow"}),
        (Permissions.DEFAULT, None),
        (Permissions.PLAN, {"edit": "deny", "bash": "deny"}),
    ],
)
async def test_permissions_go_into_the_configuration(
    tmp_path: Path, permissions: Permissions, expected: dict[str, str] | None
) -> None:
    assert configuration(await call(tmp_path, permissions=permissions)).get("permission") == expected


async def test_long_instructions_go_into_a_temporary_file(tmp_path: Path) -> None:
    seen = await call(tmp_path, system_prompt="é" * 100_000)
    assert json.loads(seen["file"])["agent"]["tinyagi"]["prompt"] == "é" * 100_000
    assert "OPENCODE_CONFIG_CONTENT" not in seen["environment"]
    assert not Path(seen["environment"]["OPENCODE_CONFIG"]).parent.exists()


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        (Endpoint(), None),
        (Endpoint(api_key="k"), {"options": {"apiKey": "k"}}),
        (
            Endpoint(base_url="http://x", api_key="k"),
            {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": "http://x", "apiKey": "k"},
                "models": {"b/c": {}},
            },
        ),
        (
            Endpoint(base_url="http://x", wire=Wire.ANTHROPIC),
            {"npm": "@ai-sdk/anthropic", "options": {"baseURL": "http://x"}, "models": {"b/c": {}}},
        ),
    ],
)
async def test_an_endpoint_goes_into_the_configuration_of_the_models_vendor(
    tmp_path: Path, endpoint: Endpoint, expected: dict[str, Any] | None
) -> None:
    daemon = {"ANTHROPIC_API_KEY": "daemon's", "TELEGRAM_BOT_TOKEN": "secret", "OPENCODE_PID": "1"}
    seen = await call(tmp_path, model="a/b/c", endpoint=endpoint, environment=daemon)
    assert configuration(seen).get("provider") == (expected and {"a": expected})
    assert ("ANTHROPIC_API_KEY" in seen["environment"]) is (endpoint.base_url is None)
    assert not {"TELEGRAM_BOT_TOKEN", "OPENCODE_PID"} & set(seen["environment"])


async def test_the_parts_of_the_last_message_are_the_answer(tmp_path: Path) -> None:
    progress = RecordedProgress()
    tool = line("tool_use", tool="bash", state={"title": "", "input": {"command": "ls\n-l"}})
    program = recorder(
        tmp_path, said("first"), tool, finished(), said("one", "msg_2"), said("two", "msg_2"), finished()
    )
    result = await Opencode(program).run(a_run(tmp_path, model="a/b"), progress)
    assert (result.text, result.session_id) == ("one\n\ntwo", SESSION)
    assert progress.pieces == ["first", "bash: ls -l", "one", "two"]
    assert result.usage == Usage(20, 12, 10, 1.0, "opencode", "a/b")


async def test_an_error_followed_by_an_answer_is_no_failure(tmp_path: Path) -> None:
    error = {"type": "error", "sessionID": SESSION, "error": {"name": "APIError", "data": {"statusCode": 529}}}
    assert (
        await Opencode(recorder(tmp_path, error, said("ok"), finished())).run(a_run(tmp_path), RecordedProgress())
    ).text == "ok"
    failure = await failure_of(Opencode(recorder(tmp_path, said("half"), error)), a_run(tmp_path))
    assert failure.kind is FailureKind.UNAVAILABLE


async def test_an_error_without_a_message_is_a_failure(tmp_path: Path) -> None:
    failure = await failure_of(Opencode(recorder(tmp_path, {"type": "error", "error": 5})), a_run(tmp_path))
    assert (failure.kind, failure.reason) == (FailureKind.MESSAGE, "opencode: an error without a message")
