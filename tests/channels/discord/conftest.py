"""A Discord of its own for each test."""

from collections.abc import AsyncIterator

import pytest

from tests.channels.discord.harness import Daemon
from tests.channels.discord.server import DiscordServer


@pytest.fixture
async def server() -> AsyncIterator[DiscordServer]:
    server = DiscordServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
async def daemon() -> Daemon:
    return Daemon()
