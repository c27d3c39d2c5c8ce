"""The lake of one home, for commands: runs the pipeline, reports its progress to the store, reads, erases, replays."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

from tinyagi.domain.erasure import Person
from tinyagi.domain.errors import DuplicateMessage, NotFound
from tinyagi.engine.inbox import Inbox, Incoming
from tinyagi.engine.pipeline_trigger import LAKE
from tinyagi.pipeline.delta.commit import repair_logs
from tinyagi.pipeline.delta.optimize import vacuum
from tinyagi.pipeline.forget.erasures import redactions_of
from tinyagi.pipeline.forget.lake_eraser import LakeEraser
from tinyagi.pipeline.forget.person import ErasurePlan, ErasureReport, PersonEraser
from tinyagi.pipeline.ingest.bronze import BRONZE
from tinyagi.pipeline.ingest.log_source import LogSource
from tinyagi.pipeline.lake import Lake, writer_lock
from tinyagi.pipeline.manage.alert_delivery import deliver_alerts
from tinyagi.pipeline.manage.replay import Replay, Replayed, ReplayMessage, send_replay
from tinyagi.pipeline.manage.verify import TableCheck, verify
from tinyagi.pipeline.manifest import FORMAT
from tinyagi.pipeline.progress import Progress, Summary
from tinyagi.pipeline.run import Pipeline
from tinyagi.pipeline.spark.class_archive import ClassArchives
from tinyagi.pipeline.spark.lake_session import LakeSession, open_for_reading, open_for_writing
from tinyagi.pipeline.spark.session import SparkSetup, check_master
from tinyagi.pipeline.spark.session_settings import Size
from tinyagi.settings.environment import api_token, snapshot
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.settings.model import PipelineSettings
from tinyagi.settings.settings_file import SettingsFile
from tinyagi.system.clock import wall_clock
from tinyagi.wiring import check_current, open_current, open_eraser

POLL: Final = timedelta(seconds=1)
"""How often `follow` looks for new events."""


class LakeService:
    """Every call blocks while Spark works, so only commands use it, never the daemon's own process."""

    def __init__(self, home: Home, *, url: str | None = None) -> None:
        """`url` is the address of the home's daemon, for workers that cannot reach its database."""
        if not home.database.is_file():
            raise NotFound(f"There is no database in {home.path} yet. Start TinyAGI there once: `tinyagi start`.")
        self.home = home
        self.lake = Lake(home.lake)
        self._url = url
        self._settings: PipelineSettings = LiveSettings(SettingsFile(home)).current.pipeline
        self._archives = ClassArchives(home.cache / "spark") if self._settings.class_archive else None

    def _setup(self, events: int) -> SparkSetup:
        """Spark settings for a run over this number of events."""
        settings = self._settings
        event_log = None if settings.event_log is None else self.home.path / Path(settings.event_log).expanduser()
        return SparkSetup(
            snapshot(), settings.master, settings.driver_memory, Size.of(events), self._archives, event_log
        )

    @property
    def _through_id(self) -> int:
        manifest = self.lake.manifest()
        return 0 if manifest is None else manifest.through_id

    def run(self, progress: Progress) -> Summary:
        """Bring all new events into the lake."""
        with self._writing("run", progress) as pipeline:
            summary = pipeline.run()
            asyncio.run(self._acknowledge())
        if self._archives is not None:
            self._archives.make_missing(now=wall_clock() / 1000)
        return summary

    def follow(self, progress: Progress, done: Callable[[Summary], None]) -> None:
        """Run whenever the log has new events, until interrupted."""
        with self._writing("follow", progress, size=Size.MIDDLE) as pipeline:
            while True:
                if pipeline.is_behind():
                    done(pipeline.run("follow"))
                    asyncio.run(self._acknowledge())
                time.sleep(POLL.total_seconds())

    def backfill(self, progress: Progress) -> Summary:
        """Rebuild silver and gold from bronze."""
        with self._writing("backfill", progress, from_scratch=True) as pipeline:
            return pipeline.backfill()

    def verify(self) -> Iterator[TableCheck]:
        """Recompute every table and compare it with the stored one, table by table."""
        with self.reading() as session:
            yield from verify(session, self._log())

    @contextmanager
    def reading(self) -> Iterator[LakeSession]:
        """A Spark session that sees every table as of the manifest."""
        with open_for_reading(self.lake, self._setup(self._through_id)) as session:
            yield session

    def compact(self, progress: Progress) -> dict[str, int]:
        """Join small files; return the number of files removed, per table."""
        with self._writing("compact", progress) as pipeline:
            return pipeline.compact()

    def vacuum(self, keep: timedelta) -> int:
        """Delete unreferenced files older than `keep`; return how many."""
        with writer_lock(self.lake.folder, "vacuum"):
            repair_logs(self.lake)
            return vacuum(self.lake, keep=keep)

    def find_person(
        self, progress: Progress, *, channel: str | None, sender: str | None, sender_id: str | None
    ) -> ErasurePlan:
        """Return what `forget` would erase. The home's daemon must not run."""
        with self._person_eraser(progress) as eraser:
            return eraser.find(Person(channel, sender, sender_id))

    def forget(
        self, progress: Progress, *, channel: str | None, sender: str | None, sender_id: str | None
    ) -> ErasureReport:
        """Erase a person everywhere in the home. Its daemon must not run."""
        with self._person_eraser(progress) as eraser:
            found = eraser.find(Person(channel, sender, sender_id))
            return eraser.erase(found, now=wall_clock(), who="cli")

    def send(self, replay: Replay) -> Replayed:
        """Send messages from the lake again, through the inbox."""
        return asyncio.run(self._send(replay))

    def detach(self) -> None:
        """Drop the lake's cursor in the event log, so that pruning no longer waits for it."""
        asyncio.run(self._detach())

    @contextmanager
    def _person_eraser(self, progress: Progress) -> Iterator[PersonEraser]:
        with ExitStack() as stack:
            eraser = None
            if self.lake.manifest() is not None:
                setup = self._setup(self._through_id)
                session = stack.enter_context(open_for_writing(self.lake, setup, "forget", progress))
                eraser = LakeEraser(session, Pipeline(session, self._log()).backfill)
            yield PersonEraser(self.home, stack.enter_context(open_eraser(self.home)), eraser)

    @contextmanager
    def _writing(
        self, purpose: str, progress: Progress, *, from_scratch: bool = False, size: Size | None = None
    ) -> Iterator[Pipeline]:
        """Without a size, the number of new events decides; `from_scratch` counts all of them."""
        # Fail before Spark starts: that takes seconds.
        check_current(self.home)
        log = self._log()
        manifest = self.lake.manifest()
        is_old = manifest is not None and manifest.format != FORMAT
        setup = self._setup(log.head() - (0 if from_scratch or is_old else self._through_id))
        if size is not None:
            setup = replace(setup, size=size)
        with open_for_writing(self.lake, setup, purpose, progress) as session:
            asyncio.run(self._republish(session.open(BRONZE).through_id))
            yield Pipeline(
                session,
                log,
                batch_events=self._settings.batch_events,
                redactions=lambda after: redactions_of(self.home, self.lake, after=after),
            )

    def _log(self) -> LogSource:
        """The database file for local Spark; the daemon's API for a cluster, whose workers cannot open the file."""
        if self._setup(0).is_local:
            return LogSource({"db": str(self.home.database)})
        check_master(self._settings.master)
        if self._url is None:
            raise NotFound(
                f"`pipeline.master` is {self._settings.master}, whose workers read through the API, and no daemon runs"
                " on this home. Start it: `tinyagi start`."
            )
        token = api_token(snapshot(), LiveSettings(SettingsFile(self.home)).current.server.token)
        return LogSource({"url": self._url, **({} if token is None else {"token": token})})

    async def _republish(self, through: int) -> None:
        """Events were pruned before the lake read them: record them again from the rows that are left."""
        async with open_current(self.home) as (store, _):
            oldest = (await store.events.bounds()).oldest
            if oldest > through + 1:
                await store.queue.rerecord(after=through, before=oldest)

    async def _acknowledge(self) -> None:
        """Advance the lake's cursor to the manifest and send new alerts.

        Call it under the writer lock, so that each alert is sent once.
        """
        manifest = self.lake.manifest()
        if manifest is None:
            return
        async with open_current(self.home) as (store, _):
            await store.events.acknowledge(LAKE, manifest.through_id)
            await deliver_alerts(self.lake, store, self._settings.alerts, now=wall_clock())

    async def _send(self, replay: Replay) -> Replayed:
        async with open_current(self.home) as (_, inbox):
            return await send_replay(replay, partial(_submit, inbox))

    async def _detach(self) -> None:
        async with open_current(self.home) as (store, _):
            await store.events.detach(LAKE)


async def _submit(inbox: Inbox, message: ReplayMessage) -> bool:
    """Submit a replayed message; False when a message with its id exists already."""
    incoming = Incoming(
        message.text,
        agent=message.to,
        channel=message.channel,
        sender=message.sender,
        sender_id=message.sender_id,
        message_id=message.message_id,
        files=message.files,
    )
    try:
        await inbox.submit(incoming)
    except DuplicateMessage:
        return False
    return True
