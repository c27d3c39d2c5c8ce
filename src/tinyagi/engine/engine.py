"""The engine: everything that moves messages, started and stopped together."""

import logging
from collections.abc import AsyncGenerator
from datetime import timedelta
from functools import partial
from typing import Final

from tinyagi.domain.errors import NotFound
from tinyagi.domain.events import ProcessorStart, ProcessorStop, SettingsRejected
from tinyagi.domain.ids import AgentId
from tinyagi.engine.archiving import Archiving
from tinyagi.engine.background import SupervisedTasks
from tinyagi.engine.board import TaskBoard
from tinyagi.engine.chats import ChatFiles
from tinyagi.engine.heartbeat import Heartbeat
from tinyagi.engine.inbox import Inbox
from tinyagi.engine.lane import Workbench
from tinyagi.engine.outbox import Outbox
from tinyagi.engine.processor import Processor
from tinyagi.engine.rules import Rules
from tinyagi.engine.runs import Run, Stopped
from tinyagi.engine.scheduler import Scheduler
from tinyagi.engine.schedules import ScheduleBook
from tinyagi.engine.upkeep import Upkeep
from tinyagi.plugins.host import Plugins
from tinyagi.system.processes import this_process

log = logging.getLogger(__name__)

PAGE: Final = 200
"""Events that plugins get before other tasks have their turn."""


class Engine:
    """One engine on one home.

    `inbox` takes messages in, `outbox` sends what answers nothing, `live` tells what runs say, `schedules` and `board`
    take changes, `archiving` tells how far the lake is behind, `background` how the endless tasks are; the rest is in
    `store`.
    """

    def __init__(
        self,
        bench: Workbench,
        inbox: Inbox,
        outbox: Outbox,
        upkeep: Upkeep,
        chats: ChatFiles,
        plugins: Plugins,
        archiving: Archiving,
    ) -> None:
        self.inbox = inbox
        self.outbox = outbox
        self.live = bench.live
        self.store = bench.store
        self.archiving = archiving
        self._bench = bench
        self.settings = bench.rulebook.live
        self._upkeep = upkeep
        self._chats = chats
        self._plugins = plugins
        self.schedules = ScheduleBook(bench.store.schedules, bench.rulebook)
        self.board = TaskBoard(bench.store.board, inbox, bench.rulebook)
        self.heartbeat = Heartbeat(bench.store, inbox, bench.rulebook, bench.budgets)
        self._scheduler = Scheduler(bench.store, inbox)
        self._processor = Processor(bench)
        self.background = SupervisedTasks()
        self._told_plugins = 0
        """The last event that plugins got."""

    async def start(self) -> int:
        """Take back what an earlier engine left, then begin; returns how many messages were taken back."""
        await self._upkeep.end_orphans()
        recovered = await self._upkeep.recover()
        await self._chats.catch_up()
        started = await self.store.events.append(ProcessorStart(str(this_process())))
        start = self.background.start
        start("settings", partial(self.settings.keep_looking, self._rejected))
        start("recover", self._upkeep.keep_recovering)
        start("tidy", self._upkeep.keep_tidying)
        start("holds", self._upkeep.keep_lifting_holds)
        start("chats", self._chats.keep_writing)
        start("schedules", self._scheduler.keep_sending)
        start("heartbeat", self.heartbeat.keep_beating)
        if self.archiving.has_pipeline:
            start("archiving", self.archiving.keep_looking)
        if self._plugins.wants_events:
            self._told_plugins = started - 1
            start("plugins", self._keep_telling_plugins)
        start("dispatch", self._processor.keep_dispatching)
        return recovered

    async def stop(self, grace: timedelta | None = None) -> None:
        """Finish or give back what runs within the grace period, end every child, and say so in the log."""
        patience = timedelta(seconds=self.settings.current.queue.shutdown_grace_seconds) if grace is None else grace
        tells_plugins = "plugins" in self.background.states
        await self.background.stop("dispatch")
        await self._processor.stop(patience)
        await self.background.stop()
        await self.archiving.stop()
        # What a run started beside itself and left behind, in a session of its own, goes with the engine.
        await self._upkeep.end_orphans()
        await self._chats.catch_up()
        await self.store.events.append(ProcessorStop(str(this_process())))
        if tells_plugins:
            await self._tell_plugins()
        await self._plugins.close()

    def halt(self) -> None:
        """Do not wait any longer: `stop` ends runs at once."""
        self._bench.halt.set()

    async def stop_run(self, message: int, *, by: str) -> bool:
        """End the run that this message is part of; its messages become dead. False when it just ended by itself."""
        run = self._run_of(message)
        if run is None:
            raise NotFound(f"Message {message} is not running.")
        ended = run.end(Stopped(by))
        await run.settled.wait()
        return ended

    async def reset(self, agent: AgentId, *, by: str) -> None:
        """Let the agent start afresh; a run that is going on keeps what it knows but leaves no session."""
        await self.store.sessions.reset(agent, by=by)

    @property
    def rules(self) -> Rules:
        """The settings as the engine uses them now."""
        return self._bench.rulebook.current

    def runs(self) -> tuple[Run, ...]:
        return tuple(self._bench.runs.values())

    def _run_of(self, message: int) -> Run | None:
        runs = self._bench.runs.values()
        return next((run for run in runs if any(one.id == message for one in run.claim.messages)), None)

    async def _rejected(self, reason: str) -> None:
        log.warning("settings were not taken over: %s", reason)
        await self.store.events.append(SettingsRejected(reason))

    async def _keep_telling_plugins(self) -> AsyncGenerator[None, None]:
        while True:
            seen = self.store.changes.version
            await self._tell_plugins()
            yield
            await self.store.changes.beyond(seen)

    async def _tell_plugins(self) -> None:
        """Hand every new event of the log to the plugins, in order."""
        while page := await self.store.events.read_after(self._told_plugins, limit=PAGE):
            for event in page:
                self._plugins.dispatch(event)
            self._told_plugins = page[-1].id
