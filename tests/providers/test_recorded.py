"""Output of the real programs, recorded by tests/e2e_cli/record.py, replayed to the providers."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.programs import a_run
from tests.support.replay import CASES, Replay
from tests.support.runs import RecordedProgress, failure_of
from tinyagi.domain.limits import Usage
from tinyagi.domain.retry import FailureKind
from tinyagi.domain.runs import Endpoint, Permissions
from tinyagi.providers.base import Provider
from tinyagi.providers.claude import Claude
from tinyagi.providers.codex import Codex
from tinyagi.providers.opencode import Opencode

PROVIDERS: dict[str, Callable[[str], Provider]] = {"claude": Claude, "codex": Codex, "opencode": Opencode}
MODELS = {"claude": "sonnet", "codex": "gpt-5.2", "opencode": "fake/model-1"}
SPENT = {
    "claude": Usage(12, 7, 3, 9.429999999999999e-05, "anthropic", "claude-sonnet-5-5"),
    "codex": Usage(9, 7, 3, None, "openai", "gpt-5.2"),
    "opencode": Usage(12, 7, 0, 0.0, "opencode", "fake/model-1"),
}

pytestmark = pytest.mark.parametrize("name", PROVIDERS)


@pytest.fixture
def play(tmp_path: Path, name: str) -> Callable[[str], tuple[Provider, Replay]]:
    def play(case: str) -> tuple[Provider, Replay]:
        replay = Replay(tmp_path, name, case)
        return PROVIDERS[name](replay.executable), replay

    return play


Play = Callable[[str], tuple[Provider, Replay]]


def test_every_recorded_case_is_replayed(name: str) -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    cases = [path.stem for path in (CASES / name).glob("*.json")]
    assert cases
    assert [case for case in cases if f'"{case}"' not in tests] == []


async def test_an_answer_is_returned_with_usage_and_session(name: str, play: Play, tmp_path: Path) -> None:
    provider, _ = play("answer")
    progress = RecordedProgress()
    result = await provider.run(a_run(tmp_path, model=MODELS[name]), progress)
    assert (result.text, progress.pieces) == ("good morning", ["good morning"])
    assert result.usage == SPENT[name]
    assert result.session_id
    assert not result.lost_session


async def test_a_resumed_session_counts_only_the_usage_of_this_run(name: str, play: Play, tmp_path: Path) -> None:
    first = await play("answer")[0].run(a_run(tmp_path, model=MODELS[name]), RecordedProgress())
    provider, replay = play("resume")
    resumed = a_run(tmp_path, model=MODELS[name], session_id=first.session_id, session_state=first.session_state)
    second = await provider.run(resumed, RecordedProgress())
    assert (second.text, second.usage, second.lost_session) == ("and good night", first.usage, False)
    [arguments] = replay.asked()
    asked = set(replay.recorded[0]["arguments"]) & set(arguments)
    assert any(session in str(second.session_id) for session in asked if len(session) > 20)


async def test_an_unknown_session_becomes_a_new_one_within_the_run(name: str, play: Play, tmp_path: Path) -> None:
    provider, replay = play("unknown_session")
    result = await provider.run(a_run(tmp_path, session_id="01a1e230-0789-7f52-8c54-000000000000"), RecordedProgress())
    assert (result.text, result.lost_session) == ("fresh", True)
    assert result.session_id
    assert "000000000000" not in result.session_id
    first, second = replay.asked()
    assert "01a1e230-0789-7f52-8c54-000000000000" in first
    assert "01a1e230-0789-7f52-8c54-000000000000" not in second


async def test_an_invalid_session_id_is_not_put_on_the_command_line(name: str, play: Play, tmp_path: Path) -> None:
    provider, replay = play("answer")
    result = await provider.run(a_run(tmp_path, session_id="--dangerous $(id)"), RecordedProgress())
    assert result.lost_session
    assert "--dangerous $(id)" not in replay.asked()[0]


async def test_a_tool_call_is_reported_in_one_line(name: str, play: Play, tmp_path: Path) -> None:
    progress = RecordedProgress()
    result = await play("tool")[0].run(a_run(tmp_path), progress)
    assert "hi" in result.text
    assert len(progress.pieces) == 2
    assert "echo hi" in progress.pieces[0]
    assert progress.pieces[1] == result.text


async def test_an_empty_answer_is_a_failure(name: str, play: Play, tmp_path: Path) -> None:
    failure = await failure_of(play("empty")[0], a_run(tmp_path))
    assert (failure.kind, failure.reason) == (FailureKind.MESSAGE, f"{name} gave no answer.")


@pytest.mark.parametrize("case", ["status_401", "status_403", "status_404"])
async def test_refused_access_needs_a_person(name: str, play: Play, tmp_path: Path, case: str) -> None:
    failure = await failure_of(play(case)[0], a_run(tmp_path))
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, True)


@pytest.mark.parametrize("case", ["status_429", "status_500", "status_529"])
async def test_a_temporary_error_needs_no_person(name: str, play: Play, tmp_path: Path, case: str) -> None:
    failure = await failure_of(play(case)[0], a_run(tmp_path))
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, False)
    if (name, case) == ("opencode", "status_429"):
        assert failure.retry_after == timedelta(seconds=2)


async def test_a_wrong_request_is_a_failure_of_the_message(name: str, play: Play, tmp_path: Path) -> None:
    failure = await failure_of(play("status_400")[0], a_run(tmp_path))
    assert failure.kind is FailureKind.MESSAGE
    assert "refused as asked" in failure.reason
    assert "{" not in failure.reason


async def test_the_command_line_matches_the_recorded_one(name: str, play: Play, tmp_path: Path) -> None:
    provider, replay = play("answer")
    base_url = "http://127.0.0.1:8000" if name == "claude" else "http://127.0.0.1:8000/v1"
    request = a_run(
        tmp_path,
        model=MODELS[name],
        system_prompt="You are the coder of team dev.",
        endpoint=Endpoint(base_url, "key"),
        permissions=Permissions.BYPASS,
    )
    await provider.run(request, RecordedProgress())
    [arguments] = replay.asked()
    plain = [re.sub(r"/[^\"]*/tinyagi-[^/]*/", "<temporary>/", argument) for argument in arguments]
    assert plain == replay.recorded[0]["arguments"]
