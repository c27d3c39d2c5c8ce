"""The API token of a run."""

from contextlib import AsyncExitStack

import pytest

from tests.engine.conftest import House
from tinyagi.domain.ids import AgentId
from tinyagi.settings.environment import without_run_variables
from tinyagi.settings.secrets import agent_of, agent_token
from tinyagi.wiring import open_engine

TOKEN = "t0ken-of-the-server-0123456789"
NAME = "TINYAGI_API_TOKEN"


async def environment_of_a_run(house: House, own: dict[str, str]) -> dict[str, str]:
    house.write_settings()
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(
            open_engine(house.home, adapters={"scripted": house.puppet}, variables=own)
        )
        house._engine = engine
        await engine.start()
        stack.push_async_callback(engine.stop)
        await house.send("hello", agent="coder")
        await house.drained()
    return dict(house.puppet.requests[0].environment)


async def test_a_run_gets_an_agent_token_and_not_the_server_token(house: House) -> None:
    environment = await environment_of_a_run(house, {NAME: TOKEN})

    assert environment[NAME] == agent_token(TOKEN, AgentId("coder"))
    assert TOKEN not in environment.values()


async def test_a_run_gets_no_token_without_a_server_token(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)

    assert NAME not in await environment_of_a_run(house, {})


def test_only_a_valid_agent_token_is_accepted() -> None:
    token = agent_token(TOKEN, AgentId("coder"))

    assert agent_of(token.encode(), TOKEN) == "coder"
    for wrong in (TOKEN, "", "agent.coder", f"{token}x", token.upper(), token.replace("coder", "writer")):
        assert agent_of(wrong.encode(), TOKEN) is None


def test_run_variables_are_removed_for_a_daemon_started_by_an_agent() -> None:
    run = {"TINYAGI_RUN": "home:claim", "TINYAGI_AGENT_ID": "coder", "PATH": "/bin"}

    assert without_run_variables({**run, NAME: agent_token(TOKEN, AgentId("coder"))}) == {"PATH": "/bin"}
    assert without_run_variables({"PATH": "/bin", NAME: TOKEN}) == {"PATH": "/bin", NAME: TOKEN}
