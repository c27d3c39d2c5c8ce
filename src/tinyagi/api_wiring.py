"""Composition root of the API. Apart from `wiring.py`, so that the pipeline's commands load no web framework."""

import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from typing import Final

from tinyagi.engine.engine import Engine
from tinyagi.pipeline.serve.archive import LakeArchive, LakeRecall
from tinyagi.server.app import create_app
from tinyagi.server.dependencies import ChannelRunner, Services
from tinyagi.server.event_hub import EventHub
from tinyagi.server.http import http_server
from tinyagi.server.metrics import Metrics
from tinyagi.server.relays import Relays
from tinyagi.settings.home import Home
from tinyagi.settings.model import ServerSettings
from tinyagi.store.archive import Archive, NoArchive, NoRecall, Recall
from tinyagi.system import peer_user
from tinyagi.system.peer_user import PeerUsers

LAKE_THREADS: Final = 3
"""Concurrent reads of the lake."""


@contextlib.asynccontextmanager
async def open_api(
    engine: Engine,
    home: Home,
    listener: socket.socket,
    restart: Callable[[], None],
    configured: ServerSettings,
    token: str | None = None,
    channels: Mapping[str, ChannelRunner] | None = None,
    relays: Relays | None = None,
) -> AsyncIterator[None]:
    """Serve the API of a started engine on the listener while the block runs."""

    def name_of(agent: str) -> str:
        return engine.rules.roster.name_of(agent)

    hub = EventHub(engine.store, engine.live, engine.background, max_readers=configured.max_streams, name_of=name_of)
    # Child processes that end slowly keep asyncio's default threads busy, so the lake has its own.
    lake_threads = ThreadPoolExecutor(LAKE_THREADS, thread_name_prefix="tinyagi-lake")
    services = Services(
        engine=engine,
        home=home,
        hub=hub,
        metrics=Metrics(),
        restart=restart,
        port=listener.getsockname()[1],
        version=version("tinyagi"),
        started_at=time.time_ns() // 1_000_000,
        channels=channels or {},
        relays=relays or Relays(),
        archive=_archive(home, lake_threads),
        recall=_recall(home, lake_threads),
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(lake_threads.shutdown, wait=False, cancel_futures=True)
        app = create_app(services, configured, token)
        peers = PeerUsers() if token is None and configured.check_peer_user and peer_user.IS_SUPPORTED else None
        if peers is not None:
            stack.callback(peers.close)
        await stack.enter_async_context(http_server(app, listener, max_streams=configured.max_streams, peers=peers))
        await hub.start()
        stack.push_async_callback(hub.stop)
        yield


def _archive(home: Home, threads: Executor) -> Archive:
    """The home's lake, if the packages that read it are installed."""
    return LakeArchive(home.lake, threads) if _lakes_are_readable() else NoArchive()


def _recall(home: Home, threads: Executor) -> Recall:
    return LakeRecall(home.lake, threads) if _lakes_are_readable() else NoRecall()


def _lakes_are_readable() -> bool:
    return find_spec("deltalake") is not None and find_spec("pyarrow") is not None
