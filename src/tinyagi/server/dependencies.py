"""FastAPI dependencies: `Services`, which every route gets, and shared path and query parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Protocol

from fastapi import Depends, Path, Query, Request

from tinyagi.api.base import ID, MAX_INTEGER
from tinyagi.api.board import GENERATED_ID
from tinyagi.engine.engine import Engine
from tinyagi.server.event_hub import EventHub
from tinyagi.server.metrics import Metrics
from tinyagi.server.relays import Relays
from tinyagi.settings.effective import EffectiveSettings
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.store.archive import Archive, History, NoArchive, NoRecall, Recall, Traces
from tinyagi.store.history import ReadThroughHistory, ReadThroughTraces
from tinyagi.store.store import Store

NamePath = Annotated[str, Path(pattern=ID, description="Lowercase letters, digits, - and _; at most 64.")]
"""The id of an agent, a team, a provider or a channel in a path."""
KeyPath = Annotated[str, Path(pattern=GENERATED_ID)]
"""An id that the store generated, in a path."""
RowId = Annotated[int, Path(ge=1, le=MAX_INTEGER, description="The `id` from a list.")]

MAX_ROWS: Final = 1_000

Cursor = Annotated[int, Query(ge=0, le=MAX_INTEGER)]
"""Start after this row id, event id or instant."""
Before = Annotated[int | None, Query(ge=1, le=MAX_INTEGER)]


class ChannelRunner(Protocol):
    """A chat channel whose relay this daemon runs as a process of its own."""

    @property
    def running(self) -> bool: ...

    @property
    def last_error(self) -> str | None:
        """The last words of the last process that ended by itself; None before the first one."""

    @property
    def restarts(self) -> int: ...

    async def start(self) -> None:
        """Start to receive and deliver; starting twice is not an error."""

    async def stop(self) -> None:
        """Stop receiving and delivering; stopping twice is not an error."""


@dataclass(frozen=True, slots=True)
class Services:
    engine: Engine
    home: Home
    hub: EventHub
    metrics: Metrics
    restart: Callable[[], None]
    """Restarts the daemon once the current runs have finished."""
    port: int
    version: str
    started_at: int
    channels: Mapping[str, ChannelRunner] = field(default_factory=dict)
    relays: Relays = field(default_factory=Relays)
    archive: Archive = field(default_factory=NoArchive)
    recall: Recall = field(default_factory=NoRecall)

    @property
    def store(self) -> Store:
        return self.engine.store

    @property
    def history(self) -> History:
        """History from the store, and older lines from the archive."""
        return ReadThroughHistory(self.store.history, self.archive)

    @property
    def traces(self) -> Traces:
        """Traces from the store, and pruned ones from the archive."""
        return ReadThroughTraces(self.store.traces, self.archive)

    @property
    def settings(self) -> LiveSettings:
        return self.engine.settings

    @property
    def rules(self) -> EffectiveSettings:
        """The settings as the engine uses them now."""
        return self.engine.rules


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(_services)]
"""A route's first parameter: `services: Use`."""


def limit(default: int) -> int:
    """The default of a row limit: `limit: int = limit(100)`."""
    number: int = Query(default, ge=1, le=MAX_ROWS, description="Maximum number of rows.")
    return number
