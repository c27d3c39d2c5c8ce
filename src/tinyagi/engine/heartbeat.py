"""Heartbeats: an agent that has them on gets the text of its `heartbeat.md` at its interval."""

import asyncio
import logging
import re
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.agents.workspace import Workspace
from tinyagi.agents.workspace_files import WorkspaceError, read_text
from tinyagi.domain.errors import DuplicateMessage
from tinyagi.domain.ids import AgentId, ConversationId
from tinyagi.domain.instants import millis
from tinyagi.domain.messages import Status
from tinyagi.engine.background import wait_until
from tinyagi.engine.budgets import Budgets
from tinyagi.engine.inbox import Inbox, Incoming
from tinyagi.settings.effective import EffectiveSettings, EffectiveSettingsCache, heartbeat_of
from tinyagi.settings.errors import SettingsError
from tinyagi.store.store import Store
from tinyagi.system.clock import wall_clock

log = logging.getLogger(__name__)

CHANNEL: Final = "heartbeat"
SENDER: Final = "Heartbeat"
SHORTEST_INTERVAL: Final = 1000
"""Milliseconds; a shorter setting counts as this."""
HISTORY_LIMIT: Final = 500
"""Lines of history that are searched for an earlier heartbeat."""

_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


class HeartbeatSender:
    """Sends heartbeats on a fixed grid of wall time, so a restart or a second process sends no extra ones."""

    def __init__(
        self,
        store: Store,
        inbox: Inbox,
        effective: EffectiveSettingsCache,
        budgets: Budgets,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self.last_sent: dict[AgentId, int] = {}
        """When this process last sent one to each agent."""
        self._store = store
        self._inbox = inbox
        self._effective = effective
        self._budgets = budgets
        self._clock = clock
        self._grids: dict[AgentId, _Grid] = {}
        self._next_at: dict[AgentId, int] = {}

    @property
    def next_at(self) -> Mapping[AgentId, int]:
        """When each agent that has heartbeats gets the next one."""
        return self._next_at

    async def keep_sending(self) -> AsyncGenerator[None, None]:
        """Send heartbeats as they become due, forever; an edit of the settings counts at once."""
        while True:
            seen = self._effective.live.version
            await self.send_due()
            yield
            due = min(self._next_at.values(), default=None)
            await wait_until(due, self._clock(), self._effective.live.beyond(seen))

    async def send_due(self) -> None:
        """Send each heartbeat that is due by now."""
        rules, now = self._effective.current, self._clock()
        self._update_grids(rules, now)
        for agent, due in list(self._next_at.items()):
            if due <= now:
                grid = self._grids[agent]
                await self._send(agent, grid.latest(now), rules)
                self._next_at[agent] = grid.latest(now) + grid.interval

    def _update_grids(self, rules: EffectiveSettings, now: int) -> None:
        """Apply changed intervals. An agent with a new interval waits for the next beat on its grid."""
        grids = _grids_of(rules)
        for agent in self._next_at.keys() - grids.keys():
            del self._next_at[agent]
        for agent, grid in grids.items():
            following = grid.latest(now) + grid.interval
            # A clock that was set back moves the next beat nearer as well.
            if self._grids.get(agent) != grid or self._next_at[agent] > following:
                self._next_at[agent] = following
        self._grids = grids

    async def _send(self, agent: AgentId, at: int, rules: EffectiveSettings) -> None:
        try:
            text = await asyncio.to_thread(_text_of, rules.setup_of(agent).workspace)
            if text is None or not await self._is_free(agent, rules):
                return
            message_id = f"{_prefix(agent)}{at}"
            incoming = Incoming(text, agent, channel=CHANNEL, sender=SENDER, message_id=message_id)
            await self._store.queue.enqueue(self._inbox.addressed(incoming))
        except DuplicateMessage:
            log.debug("another process sent the heartbeat of @%s", agent)
        except (WorkspaceError, SettingsError) as error:
            log.warning("the heartbeat of @%s cannot be sent: %s", agent, error)
        else:
            self.last_sent[agent] = self._clock()

    async def _is_free(self, agent: AgentId, rules: EffectiveSettings) -> bool:
        """False while a heartbeat would only wait: behind an earlier one, or because the lane may not run."""
        if not await self._budgets.allows(agent, rules.budgets):
            return False
        lanes = [lane for lane in await self._store.lanes.all() if lane.agent == agent]
        if any(lane.paused or lane.hold_until > self._store.clock() for lane in lanes):
            return False
        depths = [depth for depth in (await self._store.queue.depth()).lanes if depth.agent == agent]
        return not any(depth.pending or depth.processing for depth in depths) or not await self._has_open_one(agent)

    async def _has_open_one(self, agent: AgentId) -> bool:
        """True when the last heartbeat of the agent, whichever process sent it, still waits or runs."""
        lines = await self._store.history.of_agent(agent, limit=HISTORY_LIMIT)
        last = next((line.message_id for line in lines if line.message_id.startswith(_prefix(agent))), None)
        if last is None:
            return False
        conversation = await self._store.traces.conversation(ConversationId(last))
        statuses = [traced.message.status for traced in conversation if traced.message.message_id == last]
        return any(status in {Status.PENDING, Status.PROCESSING} for status in statuses)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The beats of one agent: every `interval` milliseconds, counted from the agent's offset."""

    interval: int
    offset: int

    def latest(self, now: int) -> int:
        """The last beat that is not after this instant."""
        return now - (now - self.offset) % self.interval


def _grids_of(rules: EffectiveSettings) -> dict[AgentId, _Grid]:
    grids = {}
    for agent in rules.roster.agents:
        configured = heartbeat_of(rules.settings, agent)
        if configured is not None:
            interval = max(SHORTEST_INTERVAL, millis(configured))
            # Each agent has a different offset, so that they do not all start at once.
            grids[agent] = _Grid(interval, zlib.crc32(agent.encode()) % interval)
    return grids


def _prefix(agent: AgentId) -> str:
    return f"heartbeat_{agent}_"


def _text_of(workspace: Path) -> str | None:
    """The heartbeat's text; None when the file is missing or holds only headings and comments."""
    text = read_text(Workspace(workspace).heartbeat)
    if text is None:
        return None
    text = _COMMENT.sub("", text).strip()
    lines = (line.strip() for line in text.splitlines())
    return text if any(line and not line.startswith("#") for line in lines) else None
