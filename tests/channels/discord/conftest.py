"""A Discord of its own for each test."""

from collections.abc import AsyncIterator

import pytest

from tests.channels.discord.harness import Daemon
from tests.channels.discord.server import DiscordServer
from tests.channels.platform import Platform


@pytest.fixture
async def server() -> AsyncIterator[DiscordServer]:
    server = DiscordServer()
    platform: Platform = server
    await platform.start()
    try:
        yield server
    finally:
        await platform.stop()


@pytest.fixture
async def daemon() -> Daemon:
    return Daemon()
