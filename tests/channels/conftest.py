"""A daemon's API with scripted agents, and a relay between it and a channel."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.channels.memory_channel import MemoryChannel
from tests.server.conftest import Premises
from tinyagi.channels.port import Channel
from tinyagi.channels.progress import ProgressMode
from tinyagi.channels.relay import Relay
from tinyagi.client.client import AsyncClient


@dataclass
class Front(Premises):
    """Premises with a relay in front; `channel` may be replaced before `relaying`."""

    channel: MemoryChannel = field(default_factory=MemoryChannel)
    mode: ProgressMode = ProgressMode.OFF

    @property
    def state(self) -> Path:
        return self.home.channels / "telegram"

    @asynccontextmanager
    async def client(self) -> AsyncIterator[AsyncClient]:
        async with AsyncClient(str(self.http.base_url), self.token) as client:
            yield client

    @asynccontextmanager
    async def relaying(self, channel: Channel | None = None) -> AsyncIterator["asyncio.Task[None]"]:
        async with self.client() as client:
            relay = Relay(channel or self.channel, client, self.state, self.mode)
            serving = asyncio.create_task(relay.run())
            try:
                yield serving
            finally:
                if not serving.done():
                    serving.cancel()
                    with suppress(asyncio.CancelledError):
                        await serving

    async def pair(self, person: str = "7", channel: str = "telegram") -> None:
        asked = await self.store.pairing.ask(channel, person, "Ada")
        assert asked is not None
        await self.store.pairing.approve(asked[0].code)


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    """Served, without a relay yet, and person 7 is paired."""
    front = Front(tmp_path)
    async with front.serve():
        await front.pair()
        yield front
