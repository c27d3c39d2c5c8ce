"""The lake as the store's archive: each call is read in a thread, without Java and without Spark.

Arrow and Delta are loaded by the first call that finds a lake, so that a daemon without one starts as fast as ever.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tinyagi.domain.errors import NotFound
from tinyagi.domain.ids import AgentId, ConversationId, TeamId
from tinyagi.domain.responses import ChatMessage, HistoryEntry
from tinyagi.domain.traces import ConversationSummary, TracedMessage
from tinyagi.store.archive import Analytics, TableSummary

if TYPE_CHECKING:
    from tinyagi.pipeline.archive_tables import Lakes, Snapshot

Answer = TypeVar("Answer")


class LakeArchive:
    """One lake folder, whether or not it is there yet. Read in the given threads, or in those of asyncio."""

    def __init__(self, folder: Path, threads: Executor | None = None) -> None:
        self._folder = folder
        self._threads = threads
        self._lakes: Lakes | None = None
        self._loading = threading.Lock()

    async def of_agent(
        self, agent: AgentId | None = None, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[HistoryEntry, ...]:
        def read(snapshot: "Snapshot") -> tuple[HistoryEntry, ...]:
            from tinyagi.pipeline.archive_history import agent_lines  # noqa: PLC0415 - see the module's first line

            return agent_lines(snapshot, agent, since=since, before=before, limit=limit)

        return await self._read(read) or ()

    async def of_room(
        self, team: TeamId, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[ChatMessage, ...]:
        def read(snapshot: "Snapshot") -> tuple[ChatMessage, ...]:
            from tinyagi.pipeline.archive_history import room_lines  # noqa: PLC0415

            return room_lines(snapshot, team, since=since, before=before, limit=limit)

        return await self._read(read) or ()

    async def conversation(
        self, conversation: ConversationId, *, started_at: int | None = None
    ) -> tuple[TracedMessage, ...]:
        def read(snapshot: "Snapshot") -> tuple[TracedMessage, ...]:
            from tinyagi.pipeline.archive_traces import traced_messages  # noqa: PLC0415

            return traced_messages(snapshot, conversation, started_at)

        return await self._read(read) or ()

    async def recent(self, *, limit: int = 50) -> tuple[ConversationSummary, ...]:
        def read(snapshot: "Snapshot") -> tuple[ConversationSummary, ...]:
            from tinyagi.pipeline.archive_analytics import recent_conversations  # noqa: PLC0415

            return recent_conversations(snapshot, limit)

        return await self._read(read) or ()

    async def tables(self) -> tuple[TableSummary, ...]:
        def read(snapshot: "Snapshot") -> tuple[TableSummary, ...]:
            from tinyagi.pipeline.archive_analytics import summaries  # noqa: PLC0415

            return summaries(snapshot)

        return await self._read(read) or ()

    async def analytics(
        self,
        table: str,
        *,
        since: date | None = None,
        until: date | None = None,
        agent: AgentId | None = None,
        limit: int = 1000,
    ) -> Analytics:
        def read(snapshot: "Snapshot") -> Analytics:
            from tinyagi.pipeline.archive_analytics import analytics  # noqa: PLC0415

            return analytics(snapshot, table, since=since, until=until, agent=agent, limit=limit)

        found = await self._read(read)
        if found is None:
            raise NotFound(f"There is no table {table!r}: the home has no lake yet. Run `tinyagi pipeline run`.")
        return found

    async def _read(self, read: "Callable[[Snapshot], Answer]") -> Answer | None:
        """None when there is no lake."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._blocking, read)

    def _blocking(self, read: "Callable[[Snapshot], Answer]") -> Answer | None:
        with self._loading:
            if self._lakes is None:
                if not self._folder.is_dir():
                    return None
                from tinyagi.pipeline.archive_tables import Lakes  # noqa: PLC0415

                self._lakes = Lakes(self._folder)
        return self._lakes.read(read)
