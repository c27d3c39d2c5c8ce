"""All plugins of one process: loads them, chains their hooks in the order of names, and sends them events."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Self

from tinyagi.domain.events import RecordedEvent
from tinyagi.plugins.discovery import find_plugins
from tinyagi.plugins.plugin import Plugin
from tinyagi.plugins.specs import HookContext, LoadedPlugin, Transformed


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
