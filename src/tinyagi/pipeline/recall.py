"""The lake as an agent's long memory: searched in a thread, without Java and without Spark.

Arrow and Delta are loaded by the first search that finds a lake.
"""

import asyncio
import threading
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING

from tinyagi.domain.errors import NotFound
from tinyagi.domain.ids import AgentId
from tinyagi.store.recall import Recollection

if TYPE_CHECKING:
    from tinyagi.pipeline.recall_index import Searcher


class LakeRecall:
    """One lake folder, whether or not it is there yet. Read in the given threads, or in those of asyncio."""

    def __init__(self, folder: Path, threads: Executor | None = None) -> None:
        self._folder = folder
        self._threads = threads
        self._searcher: Searcher | None = None
        self._loading = threading.Lock()

    async def search(self, agent: AgentId, query: str, *, limit: int = 10) -> Recollection:
        """Best first, and of equals the newest first; of a long line its best piece."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._blocking, agent, query, limit)

    def _blocking(self, agent: AgentId, query: str, limit: int) -> Recollection:
        with self._loading:
            if self._searcher is None:
                if not self._folder.is_dir():
                    raise NotFound("There is nothing to recall: the home has no lake yet. Run `tinyagi pipeline run`.")
                from tinyagi.pipeline.recall_index import Searcher  # noqa: PLC0415 - see the module's first line

                self._searcher = Searcher(self._folder)
        return self._searcher.search(agent, query, limit)
