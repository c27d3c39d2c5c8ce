"""Heartbeats: every agent is asked by itself, at its interval, what its `heartbeat.md` says."""

import asyncio
import logging
import re
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.agents.errors import WorkspaceError
from tinyagi.agents.texts import read_text
from tinyagi.agents.workspace import Workspace
from tinyagi.domain.durations import millis
from tinyagi.domain.errors import DuplicateMessage
from tinyagi.domain.ids import AgentId, ConversationId
from tinyagi.domain.messages import Status
from tinyagi.engine.budgets import Budgets
from tinyagi.engine.inbox import Inbox, Incoming
from tinyagi.engine.rules import Rulebook, Rules
from tinyagi.engine.waiting import until
from tinyagi.settings.derived import heartbeat_of
from tinyagi.settings.errors import SettingsError
from tinyagi.store.base import Store
from tinyagi.store.clock import wall_clock

log = logging.getLogger(__name__)

CHANNEL: Final = "heartbeat"
SENDER: Final = "Heartbeat"
SHORTEST_INTERVAL: Final = 1000
"""Milliseconds; a shorter setting counts as this."""
LOOKED_BACK: Final = 500
"""Lines of history in which an earlier heartbeat is looked for."""

_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


class Heartbeat:
    """Beats on a grid of wall time, so that a restart brings no extra beat and several processes agree on each one."""

    def __init__(
        self, store: Store, inbox: Inbox, rulebook: Rulebook, budgets: Budgets, clock: Callable[[], int] = wall_clock
    ) -> None:
        self.last_sent: int | None = None
        """When this process last sent one, to whomever."""
        self._store = store
        self._inbox = inbox
        self._rulebook = rulebook
        self._budgets = budgets
        self._clock = clock
        self._grids: dict[AgentId, _Grid] = {}
        self._next_at: dict[AgentId, int] = {}

    @property
    def next_at(self) -> Mapping[AgentId, int]:
        """When each agent that has a heartbeat is asked next."""
        return self._next_at

    async def keep_beating(self) -> AsyncGenerator[None, None]:
        """Send what becomes due, for ever; an edit of the settings counts at once."""
        while True:
            seen = self._rulebook.live.version
            await self.look()
            yield
            due = min(self._next_at.values(), default=None)
            await until(due, self._clock(), self._rulebook.live.beyond(seen))

    async def look(self) -> None:
        """Send each heartbeat that is due by now."""
        rules, now = self._rulebook.current, self._clock()
        self._follow(rules, now)
        for agent, due in list(self._next_at.items()):
            if due <= now:
                grid = self._grids[agent]
                await self._beat(agent, grid.latest(now), rules)
                self._next_at[agent] = grid.latest(now) + grid.interval

    def _follow(self, rules: Rules, now: int) -> None:
        """Take over intervals that are new. Whoever gets one waits for the next beat on its grid."""
        grids = _grids_of(rules)
        for agent in self._next_at.keys() - grids.keys():
            del self._next_at[agent]
        for agent, grid in grids.items():
            following = grid.latest(now) + grid.interval
            # A clock that was set back brings the next beat nearer, too.
            if self._grids.get(agent) != grid or self._next_at[agent] > following:
                self._next_at[agent] = following
        self._grids = grids

    async def _beat(self, agent: AgentId, at: int, rules: Rules) -> None:
        try:
            text = await asyncio.to_thread(_text_of, rules.setup_of(agent).workspace)
            if text is None or not await self._is_free(agent, rules):
                return
            message_id = f"{_prefix(agent)}{at}"
            incoming = Incoming(text, agent, channel=CHANNEL, sender=SENDER, message_id=message_id)
            await self._store.queue.enqueue(self._inbox.addressed(incoming))
        except DuplicateMessage:
            log.debug("the heartbeat of @%s was sent by another process", agent)
        except (WorkspaceError, SettingsError) as error:
            log.warning("the heartbeat of @%s cannot be sent: %s", agent, error)
        else:
            self.last_sent = self._clock()

    async def _is_free(self, agent: AgentId, rules: Rules) -> bool:
        """False while a heartbeat would only wait: behind another one, or because the lane may not run."""
        if not await self._budgets.allows(agent, rules.budgets):
            return False
        lanes = [lane for lane in await self._store.lanes.all() if lane.agent == agent]
        if any(lane.paused or lane.hold_until > self._store.clock() for lane in lanes):
            return False
        depths = [depth for depth in (await self._store.queue.depth()).lanes if depth.agent == agent]
        return not any(depth.pending or depth.processing for depth in depths) or not await self._has_open_one(agent)

    async def _has_open_one(self, agent: AgentId) -> bool:
        """True when the last heartbeat of the agent, whichever process sent it, still waits or runs."""
        lines = await self._store.history.of_agent(agent, limit=LOOKED_BACK)
        last = next((line.message_id for line in lines if line.message_id.startswith(_prefix(agent))), None)
        if last is None:
            return False
        conversation = await self._store.traces.conversation(ConversationId(last))
        statuses = [traced.message.status for traced in conversation if traced.message.message_id == last]
        return any(status in {Status.PENDING, Status.PROCESSING} for status in statuses)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The beats of one agent: every `interval` milliseconds, counted from an offset of its own."""

    interval: int
    offset: int

    def latest(self, now: int) -> int:
        """The last beat that is not after this instant."""
        return now - (now - self.offset) % self.interval


def _grids_of(rules: Rules) -> dict[AgentId, _Grid]:
    grids = {}
    for agent in rules.roster.agents:
        configured = heartbeat_of(rules.settings, agent)
        if configured is not None:
            interval = max(SHORTEST_INTERVAL, millis(configured))
            # By a number of its own for each agent, so that they do not all begin at once.
            grids[agent] = _Grid(interval, zlib.crc32(agent.encode()) % interval)
    return grids


def _prefix(agent: AgentId) -> str:
    return f"heartbeat_{agent}_"


def _text_of(workspace: Path) -> str | None:
    """What the agent is asked; None when its file says nothing but headings and comments, or is not there."""
    text = read_text(Workspace(workspace).heartbeat)
    if text is None:
        return None
    said = (line.strip() for line in _COMMENT.sub("", text).splitlines())
    return text.strip() if any(line and not line.startswith("#") for line in said) else None
