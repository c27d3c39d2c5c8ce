"""One plugin at work: its thread, its hooks, its events, and the count of failures that switches it off."""

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from tinyagi.domain.events import RecordedEvent
from tinyagi.plugins.discovery import Candidate
from tinyagi.plugins.mailbox import CAPACITY, Mailbox
from tinyagi.plugins.registry import Hook, Registry
from tinyagi.plugins.results import checked
from tinyagi.plugins.specs import ANY_EVENT, Handler, HookContext, LoadedPlugin, PluginContext, Transformed
from tinyagi.plugins.thread import PluginFailed, PluginHung, PluginThread, described

MAX_FAILURES: Final = 5
"""Failures in a row, or threads lost for good, after which a plugin is switched off."""

T = TypeVar("T")


class Plugin:
    """Every call into the plugin goes through its thread, has a time limit, and fails for this plugin alone."""

    def __init__(self, candidate: Candidate, *, home: Path, limit: timedelta) -> None:
        self.name = candidate.name
        self._candidate = candidate
        self._limit = limit
        self._log = logging.getLogger(f"tinyagi.plugins.{self.name}")
        self._context = PluginContext(self.name, home, self._log, self._subscribe)
        self._hooks: Mapping[str, Hook] = {}
        self._handlers: list[tuple[str, Handler]] = []
        self._mailbox = Mailbox()
        self._reader: asyncio.Task[None] | None = None
        self._thread: PluginThread | None = None
        self._lost: list[PluginThread] = []
        self._turn = asyncio.Lock()
        self._failures = 0
        self._error: str | None = None
        self._closed = False

    @property
    def listed(self) -> LoadedPlugin:
        return LoadedPlugin(self.name, self._candidate.origin, self._candidate.sha256, self._error)

    @property
    def is_on(self) -> bool:
        return self._error is None and not self._closed

    @property
    def wants_events(self) -> bool:
        return self.is_on and bool(self._handlers)

    def implements(self, hook: str) -> bool:
        return hook in self._hooks

    async def start(self, registry: Registry) -> None:
        """Import and activate it; what goes wrong is logged and leaves it switched off."""
        try:
            hooks = await self._enter(partial(_load, self._candidate, registry))
            if "activate" in hooks:
                await self._enter(partial(_settle, partial(hooks["activate"], ctx=self._context)))
        except PluginFailed as failure:
            self._log.error("Plugin %s is skipped: %s.", self.name, failure, exc_info=failure.trace)
            self._switch_off(str(failure))
        else:
            self._hooks = hooks
            self._reader = asyncio.create_task(self._read(), name=f"plugin {self.name}")

    async def transform(self, hook_name: str, text: str, context: HookContext) -> Transformed | None:
        """What the hook makes of the text; None when it stays as it is."""
        hook = self._hooks[hook_name]
        return await self._run(hook_name, partial(_transform, hook, text, context), alone=not hook.is_async)

    def offer(self, event: RecordedEvent) -> None:
        """Put the event into the plugin's mailbox if it has a handler for it."""
        if self.is_on and self._handlers_of(event) and not self._mailbox.put(event):
            self._log.warning(
                "Plugin %s is too slow: %d events wait for it, the oldest are dropped.", self.name, CAPACITY
            )

    async def close(self) -> None:
        """Let it take the events that wait, as far as its time limit allows, and end it."""
        self._mailbox.close()
        if self._reader is not None:
            await asyncio.wait({self._reader}, timeout=self._limit.total_seconds())
            self._reader.cancel()
            await asyncio.wait({self._reader})
        self._closed = True
        if self._thread is not None:
            self._thread.stop()
            await self._thread.stopped(self._limit)

    async def _read(self) -> None:
        while (event := await self._mailbox.next()) is not None:
            own = replace(event, payload=_copy(event.payload))
            for handler in self._handlers_of(event):
                await self._run(
                    f"its handler of {event.type}",
                    partial(_settle, partial(handler, own)),
                    alone=not inspect.iscoroutinefunction(handler),
                )

    async def _run(self, what: str, job: Callable[[], Awaitable[T]], *, alone: bool) -> T | None:
        """The job's result, or None after a failure. Jobs that run alone wait for each other outside the time limit."""
        async with self._turn if alone else contextlib.nullcontext():
            if not self.is_on:
                return None
            try:
                result = await self._enter(job)
            except PluginFailed as failure:
                self._count(what, failure)
                return None
        self._failures = 0
        return result

    async def _enter(self, job: Callable[[], Awaitable[T]]) -> T:
        if self._thread is None or self._thread.has_ended:
            try:
                self._thread = PluginThread(self.name)
            except (OSError, RuntimeError) as error:
                raise PluginFailed(described(error)) from error
        thread = self._thread
        try:
            return await thread.call(job, self._limit)
        except PluginHung:
            # Of several calls that hang in one thread, the first to give up replaces it.
            if thread is self._thread:
                self._thread = None
                self._lost.append(thread)
                thread.abandon()
            raise

    def _count(self, what: str, failure: PluginFailed) -> None:
        if not self.is_on:
            return
        self._failures += 1
        self._lost = [thread for thread in self._lost if not thread.has_ended]
        if max(self._failures, len(self._lost)) < MAX_FAILURES:
            self._log.warning(
                "Plugin %s failed in %s: %s. Everything else goes on.",
                self.name,
                what,
                failure,
                exc_info=failure.trace,
            )
            return
        reason = f"switched off after {MAX_FAILURES} failures, the last in {what}: {failure}"
        self._log.error("Plugin %s is %s. Mend it and restart.", self.name, reason, exc_info=failure.trace)
        self._switch_off(reason)

    def _switch_off(self, reason: str) -> None:
        self._error = reason
        self._mailbox.close(discard=True)
        if self._thread is not None:
            self._thread.stop()

    def _subscribe(self, event_type: str, handler: Handler) -> None:
        self._handlers.append((event_type, handler))

    def _handlers_of(self, event: RecordedEvent) -> list[Handler]:
        return [handler for event_type, handler in self._handlers if event_type in (event.type, ANY_EVENT)]


async def _load(candidate: Candidate, registry: Registry) -> Mapping[str, Hook]:
    return registry.add(candidate.name, candidate.load())


async def _transform(hook: Hook, text: str, context: HookContext) -> Transformed | None:
    return checked(await _settle(partial(hook, text=text, ctx=context)), given=text)


async def _settle(function: Callable[[], object]) -> object:
    """Call the function, sync or async."""
    result = function()
    return await result if inspect.isawaitable(result) else result


def _copy(value: object) -> Any:
    """Dicts and lists that the plugin may do with as it likes."""
    if isinstance(value, Mapping):
        return {key: _copy(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copy(entry) for entry in value]
    return value
