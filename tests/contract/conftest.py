"""Every store adapter runs the same suite."""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.routing import Agent, Roster, Team, route
from tinyagi.store.store import Store

CODER, WRITER, TESTER = AgentId("coder"), AgentId("writer"), AgentId("tester")
DEV = TeamId("dev")
ROSTER = Roster(
    agents={agent: Agent(agent, agent.title()) for agent in (CODER, WRITER, TESTER)},
    teams={DEV: Team(DEV, "Dev", (CODER, TESTER), CODER)},
    default=WRITER,
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "tinyagi.db"


@pytest.fixture(params=["sqlite"])
async def store(database: Path, clock: FakeClock) -> AsyncIterator[Store]:
    async with await Store.open(
        database, clock=clock, dice=random.Random(7), route=lambda text: route(text, ROSTER)
    ) as opened:
        yield opened
