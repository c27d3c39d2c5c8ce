"""Composition root: the only place that names adapters."""

import asyncio
import contextlib
import gc
import socket
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol

from tinyagi.domain.errors import Conflict
from tinyagi.domain.routing import route
from tinyagi.engine.archiving import Archiving, RunPipeline
from tinyagi.engine.budgets import Budgets
from tinyagi.engine.chats import ChatFiles
from tinyagi.engine.engine import Engine
from tinyagi.engine.inbox import Inbox
from tinyagi.engine.interrupts import Interrupts
from tinyagi.engine.lane import Workbench
from tinyagi.engine.live import Live
from tinyagi.engine.outbox import Outbox
from tinyagi.engine.rules import Rulebook
from tinyagi.engine.runner import Runner
from tinyagi.engine.serving import Stop, share_fairly
from tinyagi.engine.upkeep import Upkeep
from tinyagi.pipeline.archive import LakeArchive
from tinyagi.pipeline.recall import LakeRecall
from tinyagi.plugins.host import Plugins
from tinyagi.providers.api import Api
from tinyagi.providers.base import Provider
from tinyagi.providers.children import end_orphans
from tinyagi.providers.claude import Claude
from tinyagi.providers.codex import Codex
from tinyagi.providers.opencode import Opencode
from tinyagi.providers.scripted import Scripted
from tinyagi.server.access import check as check_access
from tinyagi.server.app import create_app
from tinyagi.server.http import bind, serving
from tinyagi.server.metrics import Metrics
from tinyagi.server.services import Daemon, Services
from tinyagi.server.sse import Hub
from tinyagi.settings.defaults import ensure
from tinyagi.settings.document import Document
from tinyagi.settings.environment import api_host, api_port, api_token, snapshot
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.settings.server import ServerSettings
from tinyagi.store.archive import Archive, NoArchive
from tinyagi.store.base import Store
from tinyagi.store.health import StoreHealth
from tinyagi.store.recall import NoRecall, Recall
from tinyagi.store.sqlite.backup import Copied, copy_database
from tinyagi.store.sqlite.health import examine
from tinyagi.store.sqlite.migrations import require_current
from tinyagi.store.sqlite.operations.erase import SqliteEraser
from tinyagi.store.sqlite.store import SqliteStore

LAKE_THREADS: Final = 3
"""Reads of the lake at the same time."""


async def open_store(home: Home, rulebook: Rulebook) -> Store:
    """Open the home's database, creating or migrating it where needed; rows of other tools are routed by the rules."""
    _refuse_half_restored(home)
    return await SqliteStore.open(
        home.database,
        policy=rulebook.current.policy,
        route=lambda text: route(text, rulebook.current.roster),
    )


def examine_store(home: Home) -> StoreHealth:
    """How the home's database is, without changing it; blocks."""
    return examine(home.database)


def copy_store(home: Home, target: Path, copied: Copied) -> None:
    """Copy the home's database as it is now, also while a daemon writes it; blocks."""
    _refuse_half_restored(home)
    copy_database(home.database, target, copied)


def open_eraser(home: Home) -> SqliteEraser:
    """The home's database for erasing a person: a context manager that nobody else may use it beside; blocks."""
    _refuse_half_restored(home)
    return SqliteEraser(home.database)


def pipeline_is_installed() -> bool:
    """Whether the packages of the pipeline are there; they are looked for and not imported."""
    return all(find_spec(package) is not None for package in ("pyspark", "deltalake"))


@contextlib.asynccontextmanager
async def open_inbox(home: Home) -> AsyncIterator[tuple[Store, Inbox]]:
    """The door of a home's queue; its database is created, checked and migrated as the daemon does it."""
    rulebook = Rulebook(LiveSettings(Document(home)), home)
    store = await open_store(home, rulebook)
    try:
        yield store, Inbox(store.queue, rulebook, store.clock)
    finally:
        await store.close()


def check_current(home: Home) -> None:
    """Raise StoreError unless the home's database is of exactly this version; blocks."""
    require_current(home.database)


@contextlib.asynccontextmanager
async def open_current(home: Home) -> AsyncIterator[tuple[Store, Inbox]]:
    """The door of a queue that a daemon keeps: raise StoreError unless its database is of exactly this version."""
    rulebook = Rulebook(LiveSettings(Document(home)), home)
    async with await SqliteStore.open_current(home.database, policy=rulebook.current.policy) as store:
        yield store, Inbox(store.queue, rulebook, store.clock)


@contextlib.asynccontextmanager
async def open_engine(
    home: Home,
    *,
    adapters: Mapping[str, Provider] | None = None,
    own: Mapping[str, str] | None = None,
    pipeline: RunPipeline | None = None,
) -> AsyncIterator[Engine]:
    """An engine on this home, not started yet; its store and connections are closed with the block.

    `own` are variables that children find beside those of this process: where the API is, and its token. Without
    `pipeline` nobody brings the lake up to date.
    """
    home.prepare()
    rulebook = Rulebook(LiveSettings(Document(home)), home)
    async with contextlib.AsyncExitStack() as stack:
        store = await open_store(home, rulebook)
        stack.push_async_callback(store.close)
        plugins = await _plugins(home, rulebook)
        stack.push_async_callback(plugins.close)
        if adapters is None:
            api = Api()
            stack.push_async_callback(api.aclose)
            adapters = _adapters(api)
        environment = {**snapshot(), **(own or {}), "TINYAGI_HOME": str(home.path)}
        archiving = Archiving(store.events, rulebook, pipeline, pipeline_is_installed)
        yield _assemble(home, store, rulebook, plugins, adapters, environment, archiving)


@contextlib.asynccontextmanager
async def open_api(
    engine: Engine,
    home: Home,
    listener: socket.socket,
    daemon: Daemon,
    configured: ServerSettings,
    token: str | None = None,
) -> AsyncIterator[None]:
    """The API of a started engine, answering at the listener for as long as the block lasts."""
    hub = Hub(engine.store, engine.live, engine.background, max_readers=configured.max_streams)
    # Not those of asyncio: children that end slowly keep them busy.
    lake_threads = ThreadPoolExecutor(LAKE_THREADS, thread_name_prefix="tinyagi-lake")
    services = Services(
        engine=engine,
        home=home,
        hub=hub,
        metrics=Metrics(),
        daemon=daemon,
        port=listener.getsockname()[1],
        version=version("tinyagi"),
        started_at=time.time_ns() // 1_000_000,
        archive=_archive(home, lake_threads),
        recall=_recall(home, lake_threads),
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(lake_threads.shutdown, wait=False, cancel_futures=True)
        await stack.enter_async_context(serving(create_app(services, configured, token), listener))
        await hub.start()
        stack.push_async_callback(hub.stop)
        yield


class Desk(Protocol):
    """Whoever sits in front of the daemon."""

    def say(self, text: str) -> None:
        """Tell a person something worth knowing."""

    def listening(self, host: str, port: int) -> None:
        """The API answers there from now on."""


async def run_daemon(home: Home, desk: Desk, pipeline: RunPipeline | None = None) -> bool:
    """Run engine and API until SIGTERM or SIGINT; True when the API was asked for a restart instead."""
    for line in await asyncio.to_thread(ensure, home):
        desk.say(line)
    environment = snapshot()
    stored = LiveSettings(Document(home)).current.server
    configured = stored.model_copy(update={"host": api_host(environment, stored.host)})
    token = api_token(environment, configured.token)
    check_access(configured, token)
    with contextlib.closing(bind(configured.host, api_port(environment, configured.port))) as listener:
        port = listener.getsockname()[1]
        own = {"TINYAGI_API_PORT": str(port), **({} if token is None else {"TINYAGI_API_TOKEN": token})}
        async with open_engine(home, own=own, pipeline=pipeline) as engine:
            share_fairly()
            stop = Stop(engine.halt)
            stop.listen()
            recovered = await engine.start()
            async with open_api(engine, home, listener, stop, configured, token):
                # What the start has left lives as long as the process: a full collection would walk it for 70 ms.
                gc.collect()
                gc.freeze()
                desk.listening(configured.host, port)
                desk.say(f"TinyAGI runs on {home.path}, its API on http://{configured.host}:{port}. Ctrl-C stops it.")
                if recovered:
                    desk.say(f"Took back {recovered} messages that an earlier engine had not finished.")
                await stop.wait()
                desk.say("Finishing what runs. Ctrl-C again does not wait.")
                # Agents that are still at work use the API, so it goes last.
                await engine.stop()
    return stop.wants_restart


def _refuse_half_restored(home: Home) -> None:
    """Between two steps of a restore the home may be without its database, and a new one would be made."""
    if home.restore_journal.exists():
        raise Conflict(
            f"A restore of {home.path} is under way or was cut off. Let it end; if no process runs it any more, "
            "`tinyagi start` completes it."
        )


def _archive(home: Home, threads: Executor) -> Archive:
    """The home's lake, if what reads it is installed."""
    return LakeArchive(home.lake, threads) if _lakes_are_readable() else NoArchive()


def _recall(home: Home, threads: Executor) -> Recall:
    return LakeRecall(home.lake, threads) if _lakes_are_readable() else NoRecall()


def _lakes_are_readable() -> bool:
    return find_spec("deltalake") is not None and find_spec("pyarrow") is not None


def _adapters(api: Api) -> dict[str, Provider]:
    return {"anthropic": Claude(), "openai": Codex(), "opencode": Opencode(), "api": api, "scripted": Scripted()}


async def _plugins(home: Home, rulebook: Rulebook) -> Plugins:
    configured = rulebook.current.settings.plugins
    if not configured.enabled:
        return Plugins.none()
    timeout = timedelta(seconds=configured.timeout_seconds)
    return await Plugins.load(home.plugins, home=home.path, disabled=configured.disabled, timeout=timeout)


def _assemble(
    home: Home,
    store: Store,
    rulebook: Rulebook,
    plugins: Plugins,
    adapters: Mapping[str, Provider],
    environment: Mapping[str, str],
    archiving: Archiving,
) -> Engine:
    budgets = Budgets(store.spending)
    runner = Runner(
        home=home,
        sessions=store.sessions,
        providers=adapters,
        plugins=plugins,
        budgets=budgets,
        environment=environment,
    )
    bench = Workbench(
        store=store,
        rulebook=rulebook,
        runner=runner,
        budgets=budgets,
        interrupts=Interrupts(store),
        live=Live(),
        runs={},
        halt=asyncio.Event(),
    )
    upkeep = Upkeep(store, rulebook, budgets, partial(end_orphans, home.home_id))
    inbox = Inbox(store.queue, rulebook, store.clock)
    outbox = Outbox(store.responses, rulebook, home, plugins)
    return Engine(bench, inbox, outbox, upkeep, ChatFiles(store, home.chats), plugins, archiving)
