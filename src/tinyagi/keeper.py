"""Keeps the lake of a home: runs the pipeline on it, and tells the store how far that has come."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Final

from tinyagi.domain.errors import DuplicateMessage, NotFound
from tinyagi.engine.archiving import LAKE
from tinyagi.engine.inbox import Inbox, Incoming
from tinyagi.pipeline.alerting import deliver
from tinyagi.pipeline.delta.sweep import sweep
from tinyagi.pipeline.forget.archive import LakeEraser
from tinyagi.pipeline.forget.erasures import redactions_of
from tinyagi.pipeline.forget.forgetting import Forgetting, Forgotten, Found
from tinyagi.pipeline.ingest import BRONZE, Log
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.lock import writer_lock
from tinyagi.pipeline.opening import SparkSetup, open_for_reading, open_for_writing
from tinyagi.pipeline.progress import Progress, Summary
from tinyagi.pipeline.replay import Letter, Replay, Replayed, send_replay
from tinyagi.pipeline.run import Pipeline
from tinyagi.pipeline.tidy import vacuum
from tinyagi.pipeline.verify import Verdict, verify
from tinyagi.pipeline.workshop import Workshop
from tinyagi.settings.document import Document
from tinyagi.settings.environment import api_token, snapshot
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.settings.pipeline import PipelineSettings
from tinyagi.store.clock import wall_clock
from tinyagi.store.erasing import Person
from tinyagi.wiring import check_current, open_current, open_eraser

LOOK: Final = timedelta(seconds=1)
"""How often `follow` looks for new events."""
Named = str | None
"""As somebody names a person; what they do not know is None."""
FEW_EVENTS: Final = 50_000
"""Fewer are done before a JVM has compiled its code well."""


class Keeper:
    """Blocks while Spark works: for commands, never for the daemon's own process."""

    def __init__(self, home: Home, *, url: str | None = None) -> None:
        """`url` is the address of the home's daemon, for workers that cannot reach its database."""
        if not home.database.is_file():
            raise NotFound(f"There is no database in {home.path} yet. Start TinyAGI there once: `tinyagi start`.")
        self.home = home
        self.lake = Lake(home.lake)
        self._url = url
        self._settings: PipelineSettings = LiveSettings(Document(home)).current.pipeline

    def _setup(self, events: int) -> SparkSetup:
        """For a piece of work with so many events."""
        return SparkSetup(snapshot(), self._settings.master, self._settings.driver_memory, is_brief=events < FEW_EVENTS)

    @property
    def _through_id(self) -> int:
        manifest = self.lake.manifest()
        return 0 if manifest is None else manifest.through_id

    def run(self, progress: Progress) -> Summary:
        """Take everything that is new into the lake."""
        with self._writing("run", progress) as pipeline:
            summary = pipeline.run()
            asyncio.run(self._settle())
        return summary

    def follow(self, progress: Progress, done: Callable[[Summary], None]) -> None:
        """Run whenever there is something new, until interrupted."""
        with self._writing("follow", progress) as pipeline:
            while True:
                if pipeline.is_behind():
                    done(pipeline.run("follow"))
                    asyncio.run(self._settle())
                time.sleep(LOOK.total_seconds())

    def backfill(self, progress: Progress) -> Summary:
        """Make silver and gold afresh from bronze."""
        with self._writing("backfill", progress, afresh=True) as pipeline:
            return pipeline.backfill()

    def verify(self) -> Iterator[Verdict]:
        """Compare every table with what it should be, one after another."""
        with self.reading() as shop:
            yield from verify(shop, self._log())

    @contextmanager
    def reading(self) -> Iterator[Workshop]:
        """Every table as of the manifest, with a session."""
        with open_for_reading(self.lake, self._setup(self._through_id)) as shop:
            yield shop

    def compact(self, progress: Progress) -> dict[str, int]:
        """Join small files; returns files that went, per table."""
        with self._writing("compact", progress) as pipeline:
            return pipeline.compact()

    def vacuum(self, keep: timedelta) -> int:
        """Delete files that no table has any more and that are older than this; returns how many."""
        with writer_lock(self.lake.folder, "vacuum"):
            sweep(self.lake)
            return vacuum(self.lake, keep=keep)

    def find_person(self, progress: Progress, *, channel: Named, sender: Named, sender_id: Named) -> Found:
        """What `forget` would erase. The home's daemon must not run."""
        with self._forgetting(progress) as forgetting:
            return forgetting.find(Person(channel, sender, sender_id))

    def forget(self, progress: Progress, *, channel: Named, sender: Named, sender_id: Named) -> Forgotten:
        """Erase a person everywhere in the home. Its daemon must not run."""
        with self._forgetting(progress) as forgetting:
            found = forgetting.find(Person(channel, sender, sender_id))
            return forgetting.erase(found, now=wall_clock(), who="cli")

    def send(self, replay: Replay) -> Replayed:
        """Send messages of the lake again, through the queue's own door."""
        return asyncio.run(self._send(replay))

    def detach(self) -> None:
        """Give up the lake's place in the log: pruning no longer waits for it."""
        asyncio.run(self._detach())

    @contextmanager
    def _forgetting(self, progress: Progress) -> Iterator[Forgetting]:
        with ExitStack() as stack:
            archive = None
            if self.lake.manifest() is not None:
                setup = self._setup(self._through_id)
                shop = stack.enter_context(open_for_writing(self.lake, setup, "forget", progress))
                archive = LakeEraser(shop, Pipeline(shop, self._log()).backfill)
            yield Forgetting(self.home, stack.enter_context(open_eraser(self.home)), archive)

    @contextmanager
    def _writing(self, purpose: str, progress: Progress, *, afresh: bool = False) -> Iterator[Pipeline]:
        # Before Spark starts, which takes seconds.
        check_current(self.home)
        log = self._log()
        setup = self._setup(log.head() - (0 if afresh else self._through_id))
        with open_for_writing(self.lake, setup, purpose, progress) as shop:
            asyncio.run(self._retell(shop.open(BRONZE).through_id))
            yield Pipeline(
                shop,
                log,
                batch_events=self._settings.batch_events,
                redactions=lambda after: redactions_of(self.home, self.lake, after=after),
            )

    def _log(self) -> Log:
        """Workers of a cluster cannot open the database, so they ask the daemon."""
        if self._setup(0).is_local:
            return Log({"db": str(self.home.database)})
        if self._url is None:
            raise NotFound(
                f"`pipeline.master` is {self._settings.master}, whose workers read through the API, and no daemon runs"
                " on this home. Start it: `tinyagi start`."
            )
        token = api_token(snapshot(), LiveSettings(Document(self.home)).current.server.token)
        return Log({"url": self._url, **({} if token is None else {"token": token})})

    async def _retell(self, through: int) -> None:
        """What the log no longer tells and the lake has not seen is told again, from the rows that are left of it."""
        async with open_current(self.home) as (store, _):
            oldest = (await store.events.bounds()).oldest
            if oldest > through + 1:
                await store.queue.retell(after=through, before=oldest)

    async def _settle(self) -> None:
        """Under the writer lock still: what the manifest names is archived, and what it shows is told once."""
        manifest = self.lake.manifest()
        if manifest is None:
            return
        async with open_current(self.home) as (store, _):
            await store.events.acknowledge(LAKE, manifest.through_id)
            await deliver(self.lake, store, self._settings.alerts, now=wall_clock())

    async def _send(self, replay: Replay) -> Replayed:
        async with open_current(self.home) as (_, inbox):
            return await send_replay(replay, _Door(inbox))

    async def _detach(self) -> None:
        async with open_current(self.home) as (store, _):
            await store.events.detach(LAKE)


class _Door:
    """The queue's inbox, for replayed messages."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    async def send(self, letter: Letter) -> bool:
        again = Incoming(
            letter.text,
            agent=letter.to,
            channel=letter.channel,
            sender=letter.sender,
            sender_id=letter.sender_id,
            message_id=letter.message_id,
            files=letter.files,
        )
        try:
            await self._inbox.submit(again)
        except DuplicateMessage:
            return False
        return True
