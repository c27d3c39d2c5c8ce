"""The engine: starts and stops everything that moves messages. The server calls it."""

import logging
from collections.abc import AsyncGenerator
from datetime import timedelta
from functools import partial
from typing import Final

from tinyagi.domain.errors import NotFound
from tinyagi.domain.events import ProcessorStart, ProcessorStop, SettingsRejected
from tinyagi.domain.ids import AgentId
from tinyagi.engine.active_run import ActiveRun, Stopped
from tinyagi.engine.answers import Outbox
from tinyagi.engine.background import SupervisedTasks
from tinyagi.engine.board import TaskBoard
from tinyagi.engine.chat_files import ChatFileWriter
from tinyagi.engine.heartbeat import HeartbeatSender
from tinyagi.engine.inbox import Inbox
from tinyagi.engine.lane import EngineContext
from tinyagi.engine.maintenance import Maintenance
from tinyagi.engine.pipeline_trigger import PipelineTrigger
from tinyagi.engine.processor import Processor
from tinyagi.engine.schedules import ScheduleEditor, Scheduler
from tinyagi.plugins.plugin import Plugins
from tinyagi.plugins.specs import LoadedPlugin
from tinyagi.settings.effective import EffectiveSettings
from tinyagi.system.processes import this_process

log = logging.getLogger(__name__)

PAGE: Final = 200
"""Events per read when plugins get the log."""


class Engine:
    """One engine on one home.

    `inbox` accepts messages, `outbox` sends proactive ones, `live` has the text of running runs, `schedules` and
    `board` accept changes, `archiving` knows how far the lake is behind, `background` has the state of the background
    tasks; everything else is in `store`.
    """

    def __init__(
        self,
        context: EngineContext,
        inbox: Inbox,
        outbox: Outbox,
        maintenance: Maintenance,
        chats: ChatFileWriter,
        plugins: Plugins,
        archiving: PipelineTrigger,
    ) -> None:
        self.inbox = inbox
        self.outbox = outbox
        self.live = context.live
        self.store = context.store
        self.archiving = archiving
        self._context = context
        self.settings = context.effective.live
        self._maintenance = maintenance
        self._chats = chats
        self._plugins = plugins
        self.schedules = ScheduleEditor(context.store.schedules, context.effective)
        self.board = TaskBoard(context.store.board, inbox, context.effective)
        self.heartbeat = HeartbeatSender(context.store, inbox, context.effective, context.budgets)
        self._scheduler = Scheduler(context.store, inbox)
        self._processor = Processor(context)
        self.background = SupervisedTasks()
        self._plugins_through_id = 0
        """The last event that plugins got."""

    async def start(self) -> int:
        """Recover messages of an earlier engine, then start; return the number of recovered messages."""
        await self._maintenance.end_orphans()
        recovered = await self._maintenance.recover()
        # Before the first run, so that all holds found here come from an earlier engine.
        await self._maintenance.lift_holds()
        await self._chats.catch_up()
        started = await self.store.events.append(ProcessorStart(str(this_process())))
        start = self.background.start
        start("settings", partial(self.settings.keep_polling, self._rejected))
        start("recover", self._maintenance.keep_recovering)
        start("tidy", self._maintenance.keep_maintaining)
        start("holds", self._maintenance.keep_lifting_holds)
        start("chats", self._chats.keep_writing)
        start("schedules", self._scheduler.keep_sending)
        start("heartbeat", self.heartbeat.keep_sending)
        if self.archiving.has_pipeline:
            start("archiving", self.archiving.keep_checking)
        if self._plugins.wants_events:
            self._plugins_through_id = started - 1
            start("plugins", self._keep_feeding_plugins)
        start("dispatch", self._processor.keep_dispatching)
        return recovered

    async def stop(self, grace: timedelta | None = None) -> None:
        """Finish or release runs within the grace period, end every child process, and record the stop in the log."""
        grace_period = timedelta(seconds=self.settings.current.queue.shutdown_grace_seconds) if grace is None else grace
        feeds_plugins = "plugins" in self.background.states
        await self.background.stop("dispatch")
        await self._processor.stop(grace_period)
        await self.background.stop()
        await self.archiving.stop()
        # Processes that a run detached into another session end with the engine.
        await self._maintenance.end_orphans()
        await self._chats.catch_up()
        await self.store.events.append(ProcessorStop(str(this_process())))
        if feeds_plugins:
            await self._feed_plugins()
        await self._plugins.close()

    def halt(self) -> None:
        """End the grace period: `stop` ends runs at once."""
        self._context.halt.set()

    async def stop_run(self, message: int, *, by: str) -> bool:
        """End the run of this message; its messages become dead. False when the run finished first."""
        run = self._run_of(message)
        if run is None:
            raise NotFound(
                f"Message {message} is not running. While it waits, cancel it: DELETE /api/queue/messages/{message}"
            )
        ended = run.end(Stopped(by))
        await run.end_written.wait()
        return ended

    async def reset(self, agent: AgentId, *, by: str) -> None:
        """Start a new session with the agent's next run; a run in progress keeps its context but leaves no session."""
        await self.store.sessions.reset(agent, by=by)

    @property
    def plugins(self) -> tuple[LoadedPlugin, ...]:
        """All plugins that are not disabled, with their errors."""
        return self._plugins.loaded

    @property
    def rules(self) -> EffectiveSettings:
        """The settings that the engine uses now."""
        return self._context.effective.current

    def runs(self) -> tuple[ActiveRun, ...]:
        return tuple(self._context.runs.values())

    def _run_of(self, message: int) -> ActiveRun | None:
        runs = self._context.runs.values()
        return next((run for run in runs if any(one.id == message for one in run.claim.messages)), None)

    async def _rejected(self, reason: str) -> None:
        log.warning("the settings were not applied: %s", reason)
        await self.store.events.append(SettingsRejected(reason))

    async def _keep_feeding_plugins(self) -> AsyncGenerator[None, None]:
        while True:
            seen = self.store.changes.version
            await self._feed_plugins()
            yield
            await self.store.changes.beyond(seen)

    async def _feed_plugins(self) -> None:
        """Hand every new event of the log to the plugins, in order."""
        while page := await self.store.events.read_after(self._plugins_through_id, limit=PAGE):
            for event in page:
                self._plugins.dispatch(event)
            self._plugins_through_id = page[-1].id
