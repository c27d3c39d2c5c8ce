"""Composition root of store and engine: the only place that names adapters. `api_wiring.py` adds the API."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from tinyagi.domain.errors import Conflict
from tinyagi.domain.routing import route
from tinyagi.engine.active_run import Interrupts
from tinyagi.engine.answers import Outbox
from tinyagi.engine.budgets import Budgets
from tinyagi.engine.chat_files import ChatFileWriter
from tinyagi.engine.engine import Engine
from tinyagi.engine.inbox import Inbox
from tinyagi.engine.lane import EngineContext
from tinyagi.engine.live_progress import ProgressHub
from tinyagi.engine.maintenance import Maintenance
from tinyagi.engine.pipeline_trigger import PipelineTrigger, RunPipeline
from tinyagi.engine.runner import Runner
from tinyagi.plugins.plugin import Plugins
from tinyagi.providers.api import Api
from tinyagi.providers.base import Provider
from tinyagi.providers.claude import Claude
from tinyagi.providers.codex import Codex
from tinyagi.providers.opencode import Opencode
from tinyagi.providers.process import end_orphans
from tinyagi.providers.scripted import Scripted
from tinyagi.settings.effective import EffectiveSettingsCache
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.settings.settings_file import SettingsFile
from tinyagi.store.backup import OnPagesCopied, copy_database
from tinyagi.store.erase import Eraser
from tinyagi.store.health import StoreHealth, read_health
from tinyagi.store.migrations import require_current
from tinyagi.store.store import Store


async def open_store(home: Home, effective: EffectiveSettingsCache) -> Store:
    """Open the home's database, creating or migrating it if needed; the settings route rows of other tools."""
    _refuse_half_restored(home)
    return await Store.open(
        home.database,
        policy=effective.current.policy,
        route=lambda text: route(text, effective.current.roster),
    )


def examine_store(home: Home) -> StoreHealth:
    """Check the home's database without changing it; blocks."""
    return read_health(home.database)


def copy_store(home: Home, target: Path, copied: OnPagesCopied) -> None:
    """Copy the home's database, even while a daemon writes to it; blocks."""
    _refuse_half_restored(home)
    copy_database(home.database, target, copied)


def open_eraser(home: Home) -> Eraser:
    """Open the home's database to erase a person: a context manager that needs exclusive access; blocks."""
    _refuse_half_restored(home)
    return Eraser(home.database)


def pipeline_is_installed() -> bool:
    """Whether the pipeline's packages are installed; does not import them."""
    return all(find_spec(package) is not None for package in ("pyspark", "deltalake"))


@contextlib.asynccontextmanager
async def open_inbox(home: Home) -> AsyncIterator[tuple[Store, Inbox]]:
    """Open a home's inbox; creates, checks and migrates the database as the daemon does."""
    effective = EffectiveSettingsCache(LiveSettings(SettingsFile(home)), home)
    store = await open_store(home, effective)
    try:
        yield store, Inbox(store.queue, effective, store.clock)
    finally:
        await store.close()


def check_current(home: Home) -> None:
    """Raise StoreError unless the home's database has exactly this schema version; blocks."""
    require_current(home.database)


@contextlib.asynccontextmanager
async def open_current(home: Home) -> AsyncIterator[tuple[Store, Inbox]]:
    """Open the inbox of a home that a daemon may serve; raise StoreError for any other schema version."""
    effective = EffectiveSettingsCache(LiveSettings(SettingsFile(home)), home)
    async with await Store.open_current(home.database, policy=effective.current.policy) as store:
        yield store, Inbox(store.queue, effective, store.clock)


@contextlib.asynccontextmanager
async def open_engine(
    home: Home,
    *,
    adapters: Mapping[str, Provider] | None = None,
    variables: Mapping[str, str] | None = None,
    pipeline: RunPipeline | None = None,
) -> AsyncIterator[Engine]:
    """Open an engine on this home without starting it; the end of the block closes its store and connections.

    Child processes inherit `variables`, the API's port and token, on top of this process's environment. Without
    `pipeline` the engine never updates the lake.
    """
    home.prepare()
    effective = EffectiveSettingsCache(LiveSettings(SettingsFile(home)), home)
    async with contextlib.AsyncExitStack() as stack:
        store = await open_store(home, effective)
        stack.push_async_callback(store.close)
        plugins = await _plugins(home, effective)
        stack.push_async_callback(plugins.close)
        if adapters is None:
            api = Api()
            stack.push_async_callback(api.aclose)
            adapters = _adapters(api)
        environment = {**snapshot(), **(variables or {}), "TINYAGI_HOME": str(home.path)}
        trigger = PipelineTrigger(store.events, effective, pipeline, pipeline_is_installed)
        yield _assemble(home, store, effective, plugins, adapters, environment, trigger)


def _refuse_half_restored(home: Home) -> None:
    """Raise Conflict during a restore: the database may be missing, and opening it would create an empty one."""
    if home.restore_journal.exists():
        raise Conflict(
            f"A restore of {home.path} is running or was interrupted. Wait until it ends; if it was interrupted, "
            "`tinyagi start` completes it."
        )


def _adapters(api: Api) -> dict[str, Provider]:
    return {"anthropic": Claude(), "openai": Codex(), "opencode": Opencode(), "api": api, "scripted": Scripted()}


async def _plugins(home: Home, effective: EffectiveSettingsCache) -> Plugins:
    configured = effective.current.settings.plugins
    if not configured.enabled:
        return Plugins.none()
    timeout = timedelta(seconds=configured.timeout_seconds)
    return await Plugins.load(home.plugins, home=home.path, disabled=configured.disabled, timeout=timeout)


def _assemble(
    home: Home,
    store: Store,
    effective: EffectiveSettingsCache,
    plugins: Plugins,
    adapters: Mapping[str, Provider],
    environment: Mapping[str, str],
    trigger: PipelineTrigger,
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
    context = EngineContext(
        store=store,
        effective=effective,
        runner=runner,
        budgets=budgets,
        interrupts=Interrupts(store),
        live=ProgressHub(),
        runs={},
        halt=asyncio.Event(),
    )
    maintenance = Maintenance(store, effective, budgets, partial(end_orphans, home.home_id), home.files)
    inbox = Inbox(store.queue, effective, store.clock)
    outbox = Outbox(store.responses, effective, home, plugins)
    return Engine(context, inbox, outbox, maintenance, ChatFileWriter(store, home.chats), plugins, trigger)
