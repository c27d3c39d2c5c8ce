"""Composition root: the only place that names adapters."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from functools import partial

from tinyagi.domain.routing import route
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
from tinyagi.engine.serving import serve
from tinyagi.engine.upkeep import Upkeep
from tinyagi.plugins.host import Plugins
from tinyagi.providers.api import Api
from tinyagi.providers.base import Provider
from tinyagi.providers.children import end_orphans
from tinyagi.providers.claude import Claude
from tinyagi.providers.codex import Codex
from tinyagi.providers.opencode import Opencode
from tinyagi.providers.scripted import Scripted
from tinyagi.settings.defaults import ensure
from tinyagi.settings.document import Document
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.store.base import Store
from tinyagi.store.sqlite.store import SqliteStore


async def open_store(home: Home, rulebook: Rulebook) -> Store:
    """Open the home's database, creating or migrating it where needed; rows of other tools are routed by the rules."""
    return await SqliteStore.open(
        home.database,
        policy=rulebook.current.policy,
        route=lambda text: route(text, rulebook.current.roster),
    )


@contextlib.asynccontextmanager
async def open_inbox(home: Home) -> AsyncIterator[tuple[Store, Inbox]]:
    """The door of a queue whose engine runs in another process."""
    rulebook = Rulebook(LiveSettings(Document(home)), home)
    store = await open_store(home, rulebook)
    try:
        yield store, Inbox(store.queue, rulebook)
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def open_engine(home: Home, *, adapters: Mapping[str, Provider] | None = None) -> AsyncIterator[Engine]:
    """An engine on this home, not started yet; its store and connections are closed with the block."""
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
        yield _assemble(home, store, rulebook, plugins, adapters)


async def run_until_signal(home: Home, say: Callable[[str], None]) -> None:
    """Run the home's engine until SIGTERM or SIGINT; `say` tells what a person in front of it wants to know."""
    for line in await asyncio.to_thread(ensure, home):
        say(line)
    async with open_engine(home) as engine:

        def started(recovered: int) -> None:
            say(f"TinyAGI runs on {home.path}. Ctrl-C stops it.")
            if recovered:
                say(f"Took back {recovered} messages that an earlier engine had not finished.")

        await serve(engine, started, lambda: say("Finishing what runs. Ctrl-C again does not wait."))


def _adapters(api: Api) -> dict[str, Provider]:
    return {"anthropic": Claude(), "openai": Codex(), "opencode": Opencode(), "api": api, "scripted": Scripted()}


async def _plugins(home: Home, rulebook: Rulebook) -> Plugins:
    configured = rulebook.current.settings.plugins
    if not configured.enabled:
        return Plugins.none()
    timeout = timedelta(seconds=configured.timeout_seconds)
    return await Plugins.load(home.plugins, home=home.path, disabled=configured.disabled, timeout=timeout)


def _assemble(
    home: Home, store: Store, rulebook: Rulebook, plugins: Plugins, adapters: Mapping[str, Provider]
) -> Engine:
    budgets = Budgets(store.spending)
    runner = Runner(
        home=home,
        sessions=store.sessions,
        providers=adapters,
        plugins=plugins,
        budgets=budgets,
        environment={**snapshot(), "TINYAGI_HOME": str(home.path)},
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
    inbox, outbox = Inbox(store.queue, rulebook), Outbox(store.responses, rulebook, home, plugins)
    return Engine(bench, inbox, outbox, upkeep, ChatFiles(store, home.chats), plugins)
