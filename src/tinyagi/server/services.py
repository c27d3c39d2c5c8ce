"""What the routes have at hand, given to each of them by FastAPI."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from fastapi import Depends, Request

from tinyagi.engine.engine import Engine
from tinyagi.engine.rules import Rules
from tinyagi.server.metrics import Metrics
from tinyagi.server.sse import Hub
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.store.archive import Archive, NoArchive
from tinyagi.store.base import History, Store
from tinyagi.store.read_through import ReadThroughHistory, ReadThroughTraces
from tinyagi.store.recall import NoRecall, Recall
from tinyagi.store.records import Traces


class Daemon(Protocol):
    """The process around the server."""

    def restart(self) -> None:
        """Finish what runs, then come back with the settings of that moment."""


class Channel(Protocol):
    """A channel that this daemon runs."""

    @property
    def running(self) -> bool: ...

    async def start(self) -> None:
        """Begin to receive and deliver; to start twice is no error."""

    async def stop(self) -> None:
        """Stop receiving and delivering; to stop twice is no error."""


@dataclass(frozen=True, slots=True)
class Services:
    engine: Engine
    home: Home
    hub: Hub
    metrics: Metrics
    daemon: Daemon
    port: int
    version: str
    started_at: int
    channels: Mapping[str, Channel] = field(default_factory=dict)
    archive: Archive = field(default_factory=NoArchive)
    recall: Recall = field(default_factory=NoRecall)

    @property
    def store(self) -> Store:
        return self.engine.store

    @property
    def history(self) -> History:
        """Of the store, and where that ends of the archive."""
        return ReadThroughHistory(self.store.history, self.archive)

    @property
    def traces(self) -> Traces:
        """Of the store, and of the archive what the store has pruned."""
        return ReadThroughTraces(self.store.traces, self.archive)

    @property
    def settings(self) -> LiveSettings:
        return self.engine.settings

    @property
    def rules(self) -> Rules:
        """The settings as the engine uses them now."""
        return self.engine.rules


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


Use = Annotated[Services, Depends(_services)]
"""A route's first parameter: `services: Use`."""
