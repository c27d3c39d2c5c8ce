"""What the tests of the Cloud API's channel share."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.channels.inbox import Inbox, receiving
from tests.channels.whatsapp.server import GraphServer, running
from tinyagi.channels.whatsapp.cloud import CloudChannel


@pytest.fixture
async def graph() -> AsyncIterator[GraphServer]:
    async with running() as server:
        yield server


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@contextlib.asynccontextmanager
async def connected(graph: GraphServer, state: Path, inbox: Inbox) -> AsyncIterator[CloudChannel]:
    channel = CloudChannel(graph.settings, state)
    async with receiving(channel, inbox):
        yield channel
