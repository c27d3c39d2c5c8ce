"""The lake behind the API: async archive and recall that read in threads, without Java and Spark.

The first call that finds a lake imports Arrow and Delta, so a daemon without a lake starts fast.
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
from tinyagi.store.archive import Analytics, Recollection, TableSummary

if TYPE_CHECKING:
    from tinyagi.pipeline.serve.lake_reader import LakeReader, PinnedLake
    from tinyagi.pipeline.serve.recall import Searcher

Answer = TypeVar("Answer")


class LakeArchive:
    """The store's archive, from a lake that may not exist yet. Reads in `threads`, or in asyncio's default ones."""

    def __init__(self, folder: Path, threads: Executor | None = None) -> None:
        self._folder = folder
        self._threads = threads
        self._reader: LakeReader | None = None
        self._loading = threading.Lock()

    async def of_agent(
        self,
        agent: AgentId | None = None,
        *,
        since: int = 0,
        before: int | None = None,
        limit: int = 100,
        internal: bool = True,
    ) -> tuple[HistoryEntry, ...]:
        def read(snapshot: "PinnedLake") -> tuple[HistoryEntry, ...]:
            from tinyagi.pipeline.serve.archive_rows import agent_lines  # noqa: PLC0415 - see the module docstring

            return agent_lines(snapshot, agent, since=since, before=before, limit=limit, internal=internal)

        return await self._read(read) or ()

    async def of_room(
        self, team: TeamId, *, since: int = 0, before: int | None = None, limit: int = 100
    ) -> tuple[ChatMessage, ...]:
        def read(snapshot: "PinnedLake") -> tuple[ChatMessage, ...]:
            from tinyagi.pipeline.serve.archive_rows import archived_room_lines  # noqa: PLC0415

            return archived_room_lines(snapshot, team, since=since, before=before, limit=limit)

        return await self._read(read) or ()

    async def conversation(
        self, conversation: ConversationId, *, started_at: int | None = None
    ) -> tuple[TracedMessage, ...]:
        def read(snapshot: "PinnedLake") -> tuple[TracedMessage, ...]:
            from tinyagi.pipeline.serve.traces import traced_messages  # noqa: PLC0415

            return traced_messages(snapshot, conversation, started_at)

        return await self._read(read) or ()

    async def recent(self, *, limit: int = 50) -> tuple[ConversationSummary, ...]:
        def read(snapshot: "PinnedLake") -> tuple[ConversationSummary, ...]:
            from tinyagi.pipeline.serve.archive_rows import archived_conversations  # noqa: PLC0415

            return archived_conversations(snapshot, limit)

        return await self._read(read) or ()

    async def tables(self) -> tuple[TableSummary, ...]:
        def read(snapshot: "PinnedLake") -> tuple[TableSummary, ...]:
            from tinyagi.pipeline.serve.archive_rows import summaries  # noqa: PLC0415

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
        def read(snapshot: "PinnedLake") -> Analytics:
            from tinyagi.pipeline.serve.archive_rows import analytics  # noqa: PLC0415

            return analytics(snapshot, table, since=since, until=until, agent=agent, limit=limit)

        found = await self._read(read)
        if found is None:
            raise NotFound(f"There is no table {table!r}: the home has no lake yet. Run `tinyagi pipeline run`.")
        return found

    async def _read(self, read: "Callable[[PinnedLake], Answer]") -> Answer | None:
        """None when there is no lake."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._blocking, read)

    def _blocking(self, read: "Callable[[PinnedLake], Answer]") -> Answer | None:
        with self._loading:
            if self._reader is None:
                if not self._folder.is_dir():
                    return None
                from tinyagi.pipeline.serve.lake_reader import LakeReader  # noqa: PLC0415

                self._reader = LakeReader(self._folder)
        return self._reader.read(read)


class LakeRecall:
    """Search in agents' histories, from a lake that may not exist yet. Reads like LakeArchive."""

    def __init__(self, folder: Path, threads: Executor | None = None) -> None:
        self._folder = folder
        self._threads = threads
        self._searcher: Searcher | None = None
        self._loading = threading.Lock()

    async def search(self, agent: AgentId, query: str, *, limit: int = 10) -> Recollection:
        """The best hits first, ties by newest; a long line appears once, with its best piece."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._blocking, agent, query, limit)

    def _blocking(self, agent: AgentId, query: str, limit: int) -> Recollection:
        with self._loading:
            if self._searcher is None:
                if not self._folder.is_dir():
                    raise NotFound("There is nothing to recall: the home has no lake yet. Run `tinyagi pipeline run`.")
                from tinyagi.pipeline.serve.recall import Searcher  # noqa: PLC0415 - see the module docstring

                self._searcher = Searcher(self._folder)
        return self._searcher.search(agent, query, limit)
