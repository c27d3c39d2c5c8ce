"""Our providers with the real claude, codex and opencode, and a model on loopback."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.e2e_cli.programs import KEY, PROGRAMS, RealProgram
from tests.support.fake_llm import FakeLlm, fake_llm
from tests.support.runs import RecordedProgress, failure_of
from tinyagi.domain.retry import FailureKind
from tinyagi.domain.runs import Permissions, RunLimits
from tinyagi.providers.base import Provider
from tinyagi.providers.process import find_run_processes

pytestmark = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


@pytest.fixture
async def llm() -> AsyncIterator[FakeLlm]:
    async with fake_llm() as llm:
        yield llm


@pytest.fixture
def provider(program: RealProgram) -> Provider:
    return program.provider(program.executable)


async def test_the_model_gets_prompt_and_instructions_and_answers(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path
) -> None:
    told = RecordedProgress()
    result = await provider.run(program.request(llm, tmp_path, "{{say good morning}}"), told)
    assert result.text == "good morning"
    assert told.pieces == ["good morning"]
    assert "You are the coder of team dev." in llm.asked[0].system
    assert (result.usage.input_tokens, result.usage.output_tokens) != (None, None)
    assert result.session_id is not None
    assert not result.lost_session
    assert KEY in " ".join(llm.seen[-1].headers.values())


async def test_a_session_is_resumed_by_its_id_and_takes_new_instructions(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path
) -> None:
    first = await provider.run(program.request(llm, tmp_path, "{{say one}}"), RecordedProgress())
    again = program.request(
        llm, tmp_path, "{{say two}}", session_id=first.session_id, system_prompt="You are the tester now."
    )
    second = await provider.run(again, RecordedProgress())
    third = await provider.run(replace(again, session_id=second.session_id, prompt="{{say three}}"), RecordedProgress())
    assert (second.text, second.lost_session, third.text, third.lost_session) == ("two", False, "three", False)
    assert "You are the tester now." in llm.asked[-1].system
    assert "You are the coder" not in llm.asked[-1].system
    assert third.usage.input_tokens == second.usage.input_tokens == first.usage.input_tokens
    assert third.usage.cost == pytest.approx(first.usage.cost)


@pytest.mark.parametrize("session_id", ["01a1e230-0789-7f52-8c54-000000000000", "nonsense", "--help"])
async def test_an_unknown_session_falls_back_to_a_new_one(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path, session_id: str
) -> None:
    result = await provider.run(
        program.request(llm, tmp_path, "{{say fresh}}", session_id=session_id), RecordedProgress()
    )
    assert (result.text, result.lost_session) == ("fresh", True)
    assert result.session_id not in {None, session_id}


async def test_a_tool_call_is_reported_and_its_process_knows_the_agent(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path
) -> None:
    told = RecordedProgress()
    result = await provider.run(program.request(llm, tmp_path, "{{shell echo I am $TINYAGI_AGENT_ID}}"), told)
    assert "I am coder" in result.text
    assert any("echo I am" in piece for piece in told.pieces[:-1])


async def test_a_prompt_is_never_interpreted(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path
) -> None:
    prompt = "--help $(touch hacked) `touch hacked` ; ' \" \\ \x00 ü 日本"
    request = program.request(llm, tmp_path, prompt, system_prompt="--version 'is' \"what\" $(you) say")
    result = await provider.run(request, RecordedProgress())
    assert request.system_prompt in llm.asked[0].system
    assert prompt.replace("\x00", "\ufffd") in llm.asked[0].prompt
    assert "日本" in result.text
    assert not (tmp_path / "workspace" / "hacked").exists()


async def test_instructions_longer_than_an_argument_arrive_whole(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path
) -> None:
    instructions = "é" * 150_000 + " the end"
    result = await provider.run(
        program.request(llm, tmp_path, "{{say ok}}", system_prompt=instructions), RecordedProgress()
    )
    assert result.text == "ok"
    assert instructions in llm.asked[0].system


async def test_an_empty_answer_is_a_failure(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path
) -> None:
    failure = await failure_of(provider, program.request(llm, tmp_path, "{{nothing}}"))
    assert (failure.kind, failure.reason) == (FailureKind.MESSAGE, f"{program.name} gave no answer.")


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_needs_a_person(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path, status: int
) -> None:
    failure = await failure_of(provider, program.request(llm, tmp_path, f"{{{{status {status}}}}}"))
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, True)


@pytest.mark.parametrize("order", ["429 1", "529", "500"])
async def test_a_busy_endpoint_is_unavailable(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path, order: str
) -> None:
    failure = await failure_of(provider, program.request(llm, tmp_path, f"{{{{status {order}}}}}"))
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, False)


async def test_a_bad_request_is_a_failure_of_the_message(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path
) -> None:
    failure = await failure_of(provider, program.request(llm, tmp_path, "{{status 400}}"))
    assert failure.kind is FailureKind.MESSAGE
    assert "refused as asked" in failure.reason


async def test_a_slow_model_is_ended_by_the_run_timeout(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path
) -> None:
    limits = RunLimits(run=timedelta(seconds=8), grace=timedelta(seconds=3))
    request = program.request(llm, tmp_path, "{{wait 90}}", limits=limits)
    failure = await failure_of(provider, request)
    assert failure.kind is FailureKind.TIMEOUT
    assert find_run_processes(request.run_id) == []


async def test_a_cancelled_run_leaves_no_process(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path
) -> None:
    request = program.request(llm, tmp_path, "{{shell setsid sleep 300}}")
    run = asyncio.create_task(provider.run(request, RecordedProgress()))
    async with asyncio.timeout(60):
        while not any(
            "sleep" in (p.cmdline() or [""])[0] for p in await asyncio.to_thread(find_run_processes, request.run_id)
        ):
            assert not run.done(), run
            await asyncio.sleep(0.1)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert find_run_processes(request.run_id) == []


@pytest.mark.parametrize("permissions", [Permissions.PLAN, Permissions.BYPASS])
async def test_an_agent_writes_only_with_permission(
    program: RealProgram, provider: Provider, llm: FakeLlm, tmp_path: Path, permissions: Permissions
) -> None:
    request = program.request(llm, tmp_path, "{{shell touch written}}", permissions=permissions)
    await provider.run(request, RecordedProgress())
    assert (request.workspace / "written").exists() is (permissions is Permissions.BYPASS)
