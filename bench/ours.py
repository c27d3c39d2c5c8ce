"""TinyAGI's queue as a contender: a task and a lane per caller, one run per message."""

import asyncio
from datetime import timedelta
from pathlib import Path

import apsw

from rivals import describe_durability
from samples import ANSWER, TEXT, WARM_UP, Operation, Sample, in_tasks
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Batching, NewMessage
from tinyagi.domain.runs import Claim, Outcome
from tinyagi.store.connection import connect
from tinyagi.store.store import Store


class Ours:
    """Owns an event loop, which runs only during calls."""

    name = "tinyagi"
    keeps = "its row, conversation, response, 2 lines of history, 4 events"

    def __init__(self, folder: Path, callers: int) -> None:
        self._agents = [AgentId(f"agent-{caller:03d}") for caller in range(callers)]
        self._runner = asyncio.Runner()
        self._held: dict[int, Claim] = {}
        found: list[str] = []

        def connect_and_look(path: Path, busy_timeout: timedelta) -> apsw.Connection:
            connection = connect(path, busy_timeout)
            found.append(describe_durability(connection.pragma("journal_mode"), connection.pragma("synchronous")))
            return connection

        self._store = self._runner.run(Store.open(folder / "tinyagi.db", connect=connect_and_look))
        # The store opens the writing connection first.
        self.durability = found[0]

    def warm_up(self) -> None:
        async def one_by_one() -> None:
            for number in range(WARM_UP):
                await self._enqueue(number % len(self._agents))
                await self._take(number % len(self._agents))

        self._runner.run(one_by_one())

    def fill(self, messages: int) -> None:
        async def enqueue_all() -> None:
            await asyncio.gather(*(self._enqueue(number % len(self._agents)) for number in range(messages)))

        self._runner.run(enqueue_all())

    def run(self, operation: Operation, seconds: float) -> Sample:
        step = self._enqueue if operation == "enqueue" else self._take
        return self._runner.run(in_tasks(step, len(self._agents), seconds))

    def close(self) -> None:
        self._runner.run(self._store.close())
        self._runner.close()

    async def _enqueue(self, caller: int) -> bool:
        await self._store.queue.enqueue(NewMessage(TEXT, self._agents[caller]))
        return True

    async def _take(self, caller: int) -> bool:
        """Complete the caller's claim and claim the next, as a lane with a backlog does."""
        claim = self._held.pop(caller, None)
        if claim is None:
            claim = await self._store.queue.claim(self._agents[caller], batching=Batching.NONE)
        if claim is None:
            return False
        _, following = await self._store.queue.complete_and_claim(claim, Outcome(ANSWER), batching=Batching.NONE)
        if following is not None:
            self._held[caller] = following
        return True
