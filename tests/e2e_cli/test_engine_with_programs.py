"""The whole engine with the real programs: a message in, an answer out, sessions, tools, retries, usage in the log."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.e2e_cli.programs import CLAUDE, CODEX, KEY, RealProgram
from tests.engine.conftest import House
from tests.support.fake_llm import FakeLlm, fake_llm
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Status

pytestmark = [
    pytest.mark.parametrize("program", [CLAUDE, CODEX], ids=lambda program: program.name),
    pytest.mark.timeout(300),
]


@pytest.fixture
async def llm() -> AsyncIterator[FakeLlm]:
    async with fake_llm() as llm:
        yield llm


@pytest.fixture
def separate_user_home(program: RealProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the logins and settings of this user."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    (tmp_path / "user").mkdir()
    for name, value in program.environment.items():
        monkeypatch.setenv(name, value)


@asynccontextmanager
async def opened_house(folder: Path, program: RealProgram, llm: FakeLlm) -> AsyncIterator[House]:
    house = House(folder, puppet=program.provider(program.executable))  # type: ignore[arg-type]
    house.settings["custom_providers"] = {
        "fake": {
            "name": "Fake",
            "harness": program.name,
            "base_url": f"{llm.url}{program.path}",
            "api_key": KEY,
            "model": program.model,
        }
    }
    house.settings["agents"]["coder"]["provider"] = "custom:fake"
    house.settings["queue"]["attempts"] = 2
    async with house.open():
        yield house


@pytest.mark.usefixtures("separate_user_home")
async def test_messages_are_answered_in_one_session_and_their_usage_recorded(
    program: RealProgram, llm: FakeLlm, tmp_path: Path
) -> None:
    async with opened_house(tmp_path, program, llm) as house:
        await house.send("@coder {{say good morning}}", sender="Ada")
        await house.send("@coder {{shell echo from-the-shell}}", sender="Ada")
        await house.drained()
        answers = [response.message for response in await house.responses()]
        steps = await house.events("chain_step_done")
        lost = await house.events("session_lost")
        session = await house.store.sessions.find(AgentId("coder"), "", "custom:fake")

    assert answers[0] == "good morning"
    assert "from-the-shell" in answers[1]
    assert all(step.payload["usage"]["output_tokens"] > 0 for step in steps)
    # The second run resumed the session of the first one, and its session is stored.
    assert lost == []
    assert session is not None


@pytest.mark.usefixtures("separate_user_home")
async def test_a_refused_request_is_retried_and_then_dead_with_its_reason(
    program: RealProgram, llm: FakeLlm, tmp_path: Path
) -> None:
    async with opened_house(tmp_path, program, llm) as house:
        await house.send("@coder {{status 400}}", sender="Ada")
        await house.drained()
        (failed,) = await house.events("message_failed")
        (message,) = await house.messages()
        (notice,) = await house.responses()

    assert failed.payload["attempt"] == 1
    assert message.status is Status.DEAD
    assert program.name in (message.last_error or "")
    assert notice.sender == "Ada"


@pytest.mark.usefixtures("separate_user_home")
async def test_a_busy_model_holds_the_lane_and_uses_no_attempt(
    program: RealProgram, llm: FakeLlm, tmp_path: Path
) -> None:
    async with opened_house(tmp_path, program, llm) as house:
        await house.send("@coder {{status 429 30}}")
        held = await house.until_event("lane_held")
        (message,) = await house.messages()

    assert program.name in held.payload["reason"]
    assert message.retry_count == 0
