"""Plugins: one loaded plugin, isolated from the rest, and all plugins of a process with their chained hooks."""

import asyncio
import contextlib
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from tinyagi.domain.events import RecordedEvent
from tinyagi.plugins.discovery import FoundPlugin, Hook, find_plugins, hooks_of
from tinyagi.plugins.specs import (
    ANY_EVENT,
    Handler,
    HookContext,
    LoadedPlugin,
    PluginContext,
    Transformed,
    check_result,
)
from tinyagi.plugins.thread import PluginFailed, PluginHung, PluginThread, describe_error

MAX_FAILURES: Final = 5
"""Failures in a row, or hung threads, after which a plugin is switched off."""

T = TypeVar("T")

CAPACITY: Final = 1_000


class Plugin:
    """Every call into the plugin runs in its thread, has a time limit, and fails for this plugin alone."""

    def __init__(self, found: FoundPlugin, *, home: Path, limit: timedelta) -> None:
        self.name = found.name
        self._found = found
        self._limit = limit
        self._log = logging.getLogger(f"tinyagi.plugins.{self.name}")
        self._context = PluginContext(self.name, home, self._log, self._subscribe)
        self._hooks: Mapping[str, Hook] = {}
        self._handlers: list[tuple[str, Handler]] = []
        self._events = EventQueue()
        self._reader: asyncio.Task[None] | None = None
        self._thread: PluginThread | None = None
        self._lost: list[PluginThread] = []
        self._turn = asyncio.Lock()
        self._failures = 0
        self._error: str | None = None
        self._closed = False

    @property
    def listed(self) -> LoadedPlugin:
        return LoadedPlugin(self.name, self._found.origin, self._found.sha256, self._error)

    @property
    def is_on(self) -> bool:
        return self._error is None and not self._closed

    @property
    def wants_events(self) -> bool:
        return self.is_on and bool(self._handlers)

    def implements(self, hook: str) -> bool:
        return hook in self._hooks

    async def start(self) -> None:
        """Import and activate the plugin; an error is logged and leaves it switched off."""
        try:
            hooks = await self._run_in_thread(partial(_load, self._found))
            if "activate" in hooks:
                await self._run_in_thread(partial(_call, partial(hooks["activate"], ctx=self._context)))
        except PluginFailed as failure:
            self._log.error("Plugin %s is skipped: %s.", self.name, failure, exc_info=failure.trace)
            self._switch_off(str(failure))
        else:
            self._hooks = hooks
            self._reader = asyncio.create_task(self._read(), name=f"plugin {self.name}")

    async def transform(self, hook_name: str, text: str, context: HookContext) -> Transformed | None:
        """The hook's text; None when the text stays unchanged or the hook fails."""
        hook = self._hooks[hook_name]
        return await self._run(hook_name, partial(_transform, hook, text, context), alone=not hook.is_async)

    def enqueue_event(self, event: RecordedEvent) -> None:
        """Queue the event when the plugin has a handler for it."""
        if self.is_on and self._handlers_of(event) and not self._events.put(event):
            self._log.warning(
                "Plugin %s is too slow: %d events wait for it, the oldest are dropped.", self.name, CAPACITY
            )

    async def close(self) -> None:
        """Let it handle queued events within its time limit, then end it."""
        self._events.close()
        if self._reader is not None:
            await asyncio.wait({self._reader}, timeout=self._limit.total_seconds())
            self._reader.cancel()
            await asyncio.wait({self._reader})
        self._closed = True
        if self._thread is not None:
            self._thread.stop()
            await self._thread.stopped(self._limit)

    async def _read(self) -> None:
        while (event := await self._events.next()) is not None:
            copied = replace(event, payload=_copy(event.payload))
            for handler in self._handlers_of(event):
                await self._run(
                    f"its handler of {event.type}",
                    partial(_call, partial(handler, copied)),
                    alone=not inspect.iscoroutinefunction(handler),
                )

    async def _run(self, what: str, job: Callable[[], Awaitable[T]], *, alone: bool) -> T | None:
        """The job's result, or None after a failure.

        Jobs with `alone` run one at a time; waiting for each other does not count towards the time limit.
        """
        async with self._turn if alone else contextlib.nullcontext():
            if not self.is_on:
                return None
            try:
                result = await self._run_in_thread(job)
            except PluginFailed as failure:
                self._count_failure(what, failure)
                return None
        self._failures = 0
        return result

    async def _run_in_thread(self, job: Callable[[], Awaitable[T]]) -> T:
        if self._thread is None or self._thread.has_ended:
            try:
                self._thread = PluginThread(self.name)
            except (OSError, RuntimeError) as error:
                raise PluginFailed(describe_error(error)) from error
        thread = self._thread
        try:
            return await thread.call(job, self._limit)
        except PluginHung:
            # When several calls hang in one thread, the first to time out replaces the thread.
            if thread is self._thread:
                self._thread = None
                self._lost.append(thread)
                thread.abandon()
            raise

    def _count_failure(self, what: str, failure: PluginFailed) -> None:
        if not self.is_on:
            return
        self._failures += 1
        self._lost = [thread for thread in self._lost if not thread.has_ended]
        if max(self._failures, len(self._lost)) < MAX_FAILURES:
            self._log.warning(
                "Plugin %s failed in %s: %s. Everything else continues.",
                self.name,
                what,
                failure,
                exc_info=failure.trace,
            )
            return
        reason = f"switched off after {MAX_FAILURES} failures, the last in {what}: {failure}"
        self._log.error("Plugin %s is %s. Fix it and restart.", self.name, reason, exc_info=failure.trace)
        self._switch_off(reason)

    def _switch_off(self, reason: str) -> None:
        self._error = reason
        self._events.close(discard=True)
        if self._thread is not None:
            self._thread.stop()

    def _subscribe(self, event_type: str, handler: Handler) -> None:
        self._handlers.append((event_type, handler))

    def _handlers_of(self, event: RecordedEvent) -> list[Handler]:
        return [handler for event_type, handler in self._handlers if event_type in (event.type, ANY_EVENT)]


async def _load(found: FoundPlugin) -> Mapping[str, Hook]:
    return hooks_of(found.load())


async def _transform(hook: Hook, text: str, context: HookContext) -> Transformed | None:
    return check_result(await _call(partial(hook, text=text, ctx=context)), original=text)


async def _call(function: Callable[[], object]) -> object:
    """Call the function and await its result if needed."""
    result = function()
    return await result if inspect.isawaitable(result) else result


def _copy(value: object) -> Any:
    """A deep copy that the plugin may change."""
    if isinstance(value, Mapping):
        return {key: _copy(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copy(entry) for entry in value]
    return value


class EventQueue:
    """A bounded queue of events; when it is full, the oldest event is dropped."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._events: deque[RecordedEvent] = deque(maxlen=capacity)
        self._changed = asyncio.Event()
        self._overflowing = False
        self._closed = False

    def put(self, event: RecordedEvent) -> bool:
        """Add an event; False when this is the first one in a burst that drops another."""
        if self._closed:
            return True
        starts_burst = len(self._events) == self._events.maxlen and not self._overflowing
        self._overflowing = self._overflowing or starts_burst
        self._events.append(event)
        self._changed.set()
        return not starts_burst

    async def next(self) -> RecordedEvent | None:
        """The oldest event, as soon as there is one; None when the queue is closed and empty."""
        while not self._events:
            if self._closed:
                return None
            self._changed.clear()
            await self._changed.wait()
        event = self._events.popleft()
        # A burst lasts until the plugin has caught up.
        self._overflowing = self._overflowing and bool(self._events)
        return event

    def close(self, *, discard: bool = False) -> None:
        """Accept no more events; queued ones can still be read, unless discarded."""
        self._closed = True
        if discard:
            self._events.clear()
        self._changed.set()


class Plugins:
    """All loaded plugins. A failure of one reaches neither the caller nor another plugin."""

    def __init__(self, plugins: Sequence[Plugin], home: Path) -> None:
        self._plugins = tuple(plugins)
        self._home = home
        self._incoming = tuple(plugin for plugin in plugins if plugin.implements("transform_incoming"))
        self._outgoing = tuple(plugin for plugin in plugins if plugin.implements("transform_outgoing"))

    @classmethod
    async def load(
        cls,
        folder: Path,
        *,
        home: Path,
        disabled: Collection[str] = (),
        timeout: timedelta = timedelta(seconds=5),  # noqa: ASYNC109
        entry_points: bool = True,
    ) -> Self:
        """Import and activate every plugin of the folder and of installed packages, one after the other.

        A plugin that cannot be loaded is logged and stays in the list with its error. A disabled one is not imported.
        """
        plugins: list[Plugin] = []
        try:
            for candidate in await asyncio.to_thread(find_plugins, folder, entry_points=entry_points):
                if candidate.name not in disabled:
                    plugins.append(Plugin(candidate, home=home, limit=timeout))
                    await plugins[-1].start()
        except BaseException:
            await cls(plugins, home).close()
            raise
        return cls(plugins, home)

    @classmethod
    def none(cls) -> Self:
        """A host without plugins."""
        return cls((), Path())

    @property
    def loaded(self) -> tuple[LoadedPlugin, ...]:
        """Every plugin in the order of names, with its current error."""
        return tuple(plugin.listed for plugin in self._plugins)

    @property
    def wants_events(self) -> bool:
        """True while a plugin has a handler."""
        return any(plugin.wants_events for plugin in self._plugins)

    async def incoming(self, text: str, context: HookContext) -> Transformed:
        """The text that the agent reads."""
        return await self._chain(self._incoming, "transform_incoming", text, context)

    async def outgoing(self, text: str, context: HookContext) -> Transformed:
        """The text that the person reads, and metadata for the channel."""
        return await self._chain(self._outgoing, "transform_outgoing", text, context)

    def dispatch(self, event: RecordedEvent) -> None:
        """Queue the event for every plugin with a handler for it, in the order of calls; never waits or raises."""
        for plugin in self._plugins:
            plugin.enqueue_event(event)

    async def close(self) -> None:
        """End all plugins, within about twice the time limit of a call."""
        await asyncio.gather(*(plugin.close() for plugin in self._plugins))

    async def _chain(self, plugins: Sequence[Plugin], hook: str, text: str, context: HookContext) -> Transformed:
        if not plugins:
            return Transformed(text)
        metadata: dict[str, str] = {}
        context = replace(context, home=self._home)
        for plugin in plugins:
            changed = await plugin.transform(hook, text, context)
            if changed is not None:
                text = changed.text
                metadata.update(changed.metadata)
        return Transformed(text, metadata)
