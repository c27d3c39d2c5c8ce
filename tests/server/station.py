"""A hub and its stream on a real server over a real store, and a log that fails on request."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from tests.server.event_source import EventSource, listening
from tests.support.builders import a_message
from tinyagi.domain.errors import StoreBusy
from tinyagi.domain.events import RecordedEvent
from tinyagi.domain.ids import AgentId, ClaimId
from tinyagi.domain.messages import Message, NewMessage
from tinyagi.domain.runs import Claim
from tinyagi.engine.background import SupervisedTasks
from tinyagi.engine.live_progress import ProgressHub
from tinyagi.server.event_hub import EventHub
from tinyagi.server.event_stream import EventStream
from tinyagi.server.http import bind, http_server
from tinyagi.store.event_log import EventLog
from tinyagi.store.store import Store

NEVER = timedelta(hours=1)


class FaultyLog:
    """The log, except that the next `failures` reads raise `error`."""

    def __init__(self, log: EventLog) -> None:
        self.failures = 0
        self.error: Exception = StoreBusy("The database is locked.")
        self.failed = asyncio.Event()
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    async def read_after(self, cursor: int, **options: Any) -> tuple[RecordedEvent, ...]:
        found = await self._log.read_after(cursor, **options)
        # Checked after the read: a read that had already begun when the lock was taken fails too.
        if self.failures > 0:
            self.failures -= 1
            self.failed.set()
            raise self.error
        return found


class Wrapped:
    """The store with its log wrapped."""

    def __init__(self, store: Store) -> None:
        self.events = FaultyLog(store.events)
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@dataclass
class Station:
    store: Any
    live: ProgressHub
    background: SupervisedTasks
    hub: EventHub
    port: int
    names: dict[str, str]
    """Display names of agents that have one."""

    async def send(self, count: int = 1, agent: str = "coder", text: str = "hello") -> Sequence[Message]:
        """Send `count` messages; each is one event."""
        new = [NewMessage(f"{text} {number}", AgentId(agent)) for number in range(count)]
        sent: Sequence[Message] = await self.store.queue.enqueue_many(new)
        return sent

    def say(self, text: str, agent: str = "coder", claim: Claim | None = None) -> None:
        if claim is None:
            claim = Claim(ClaimId("claim_1"), AgentId(agent), (a_message(agent=AgentId(agent)),), 0, 0, 0)
        with self.live.speaking(claim) as speaker:
            speaker.say(text)

    @asynccontextmanager
    async def reader(self, query: str = "", **options: Any) -> AsyncIterator[EventSource]:
        """A connected reader: its first frame has been read."""
        async with listening(self.port, query, **options) as source:
            assert source.status == 200
            assert (await source.next()).event == "connected"
            yield source


@asynccontextmanager
async def station(folder: Path, *, max_readers: int = 300, keep_alive: timedelta = NEVER) -> AsyncIterator[Station]:
    async with await Store.open(folder / "tinyagi.db") as opened:
        store, live, background = cast("Store", Wrapped(opened)), ProgressHub(), SupervisedTasks()
        names: dict[str, str] = {}
        hub = EventHub(
            store,
            live,
            background,
            max_readers=max_readers,
            keep_alive=keep_alive,
            read_again=timedelta(milliseconds=1),
            name_of=lambda agent: names.get(agent, agent),
        )
        await hub.start()
        with bind("127.0.0.1", 0) as listener:
            stream = EventStream(hub, store)
            async with http_server(stream, listener):
                yield Station(store, live, background, hub, listener.getsockname()[1], names)
                await hub.stop()
