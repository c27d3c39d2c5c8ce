"""The house of engine tests: a real store, settings and workspaces in a temporary folder, scripted agents."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.log import read_all
from tests.support.puppet import Puppet
from tinyagi.domain.events import RecordedEvent
from tinyagi.domain.messages import Message, Status
from tinyagi.domain.responses import Response
from tinyagi.engine.engine import Engine
from tinyagi.engine.inbox import Incoming, Submitted
from tinyagi.settings.effective import EffectiveSettingsCache
from tinyagi.settings.home import Home
from tinyagi.store.store import Store
from tinyagi.system.clock import wall_clock
from tinyagi.wiring import open_engine

AGENTS = ("coder", "writer", "tester")
ADAPTERS = ("anthropic", "openai", "opencode", "api", "scripted")
FAST = {
    "retry_base_seconds": 0.02,
    "retry_factor": 1,
    "retry_jitter": 0,
    "hold_base_seconds": 0.05,
    "recover_seconds": 0.05,
}


@dataclass
class House:
    """One home with its engine; `settings` may be changed before `open`."""

    folder: Path
    puppet: Puppet = field(default_factory=Puppet)
    settings: dict[str, Any] = field(default_factory=dict)
    _engine: Engine | None = None

    def __post_init__(self) -> None:
        self.settings = {
            "workspace": {"path": str(self.folder / "workspace")},
            "agents": {agent: {"name": agent.title(), "provider": "scripted"} for agent in AGENTS},
            "teams": {"dev": {"name": "Dev", "agents": list(AGENTS), "leader_agent": "coder"}},
            "queue": dict(FAST),
            "limits": {},
            "responses": {"suffix": False},
            "monitoring": {"heartbeat_interval": 0},
        }

    @property
    def home(self) -> Home:
        return Home(self.folder / "home")

    @property
    def engine(self) -> Engine:
        assert self._engine is not None, "the house is not open"
        return self._engine

    @property
    def store(self) -> Store:
        return self.engine.store

    @asynccontextmanager
    async def open(self, *, start: bool = True, grace: timedelta = timedelta(seconds=5)) -> AsyncIterator["House"]:
        """An engine on the settings as they are now; it is started unless the test starts it later."""
        self.write_settings()
        async with open_engine(self.home, adapters=dict.fromkeys(ADAPTERS, self.puppet)) as engine:
            self._engine = engine
            if start:
                await engine.start()
            yield self
            await engine.stop(grace)

    def write_settings(self) -> None:
        self.home.prepare()
        self.home.settings_file.write_text(json.dumps(self.settings), encoding="utf-8")

    async def send(self, text: str, **fields: Any) -> Submitted:
        return await self.engine.inbox.submit(Incoming(text, **fields))

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait until the condition holds; it is checked after every change of the store."""
        while True:
            seen = self.store.changes.version
            if await condition():
                return
            await self.store.changes.beyond(seen)

    async def drained(self) -> None:
        """Wait until nothing is pending and nothing runs."""

        async def is_empty() -> bool:
            depth = await self.store.queue.depth()
            return depth.pending == depth.processing == 0

        await self.until(is_empty)

    async def events(self, *types: str) -> list[RecordedEvent]:
        return [event for event in await read_all(self.store.events) if not types or event.type in types]

    async def has_event(self, event_type: str) -> bool:
        return bool(await self.events(event_type))

    async def until_event(self, event_type: str) -> RecordedEvent:
        await self.until(lambda: self.has_event(event_type))
        return (await self.events(event_type))[0]

    async def responses(self) -> list[Response]:
        """Oldest first."""
        return list(reversed(await self.store.responses.recent(limit=1000)))

    async def messages(self) -> list[Message]:
        rows = [event.payload["message"]["id"] for event in await self.events("message_received")]
        return [message for row in rows if (message := await self.store.queue.message(row)) is not None]

    async def statuses(self) -> list[Status]:
        return [message.status for message in await self.messages()]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def open_an_hour_ahead(home: Home, effective: EffectiveSettingsCache) -> Store:
    """The home's store with a clock one hour ahead, as after the wall clock was set back by an hour."""
    return await Store.open(home.database, clock=lambda: wall_clock() + 3_600_000)


async def settled(condition: Callable[[], bool]) -> None:
    """Let other tasks run until the condition holds."""
    while not condition():  # noqa: ASYNC110 - a puppet has no event for every state
        await asyncio.sleep(0.001)
