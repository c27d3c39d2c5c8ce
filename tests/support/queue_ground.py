"""The base of the queue's random walk: a store that can crash, a reader of its rows, and its log."""

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Any

import apsw
from hypothesis.stateful import RuleBasedStateMachine

from tests.support.clock import FakeClock
from tests.support.log import Tables, read_all
from tinyagi.domain.events import RecordedEvent
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.messages import PASSIVE_PRIORITY, Status
from tinyagi.domain.retry import RetryPolicy
from tinyagi.domain.runs import Claim
from tinyagi.store.store import Store
from tinyagi.system.processes import ProcessIdentity

POLICY = RetryPolicy(attempts=3)
TRANSITIONS = {
    Status.PENDING: {Status.PROCESSING, Status.DEAD},
    Status.PROCESSING: {Status.PENDING, Status.COMPLETED, Status.DEAD},
    Status.COMPLETED: set[Status](),
    Status.DEAD: {Status.PENDING},
}
"""The legal moves of a message."""


class QueueGround(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "tinyagi.db"
        self.clock = FakeClock()
        self.generation = 0
        self.living: set[str] = set()
        self.claims: dict[AgentId, Claim] = {}
        self.lost_claims: list[Claim] = []
        self.log: list[RecordedEvent] = []
        self.tables = Tables()
        self.number = 0
        self.acknowledged: int | None = None
        self.store = self.open()
        self.reader = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    def open(self) -> Store:
        self.generation += 1
        self.owner = ProcessIdentity("here", "boot", self.generation, 1.0)
        self.living = {str(self.owner)}
        store: Store = self.run(
            Store.open(
                self.path,
                clock=self.clock,
                dice=random.Random(self.generation),
                policy=POLICY,
                owner=self.owner,
                alive=lambda owner: str(owner) in self.living,
            )
        )
        return store

    def teardown(self) -> None:
        self.reader.close()
        self.run(self.store.close())
        self.runner.close()
        self.folder.cleanup()

    def end(self, agent: AgentId) -> Claim:
        """The claim of this lane, or of another one that is running."""
        return self.claims.pop(agent if agent in self.claims else next(iter(self.claims)))

    def pending_in(self, agent: AgentId) -> list[int]:
        rows = self.rows("SELECT id FROM messages WHERE agent = ? AND status = 'pending'", (agent,))
        return [number for (number,) in rows]

    def check_order(self, claim: Claim, held_teams: frozenset[TeamId]) -> None:
        """No due message precedes the claimed ones in their threads, and their threads are not held."""
        assert claim.primary.priority > PASSIVE_PRIORITY, "a passive post started a run"
        assert not held_teams & {message.team for message in claim.messages}, "a held team was run"
        chosen = {message.id for message in claim.messages}
        for message in claim.messages:
            for row in self.tables.messages.values():
                same_line = (row["agent"], row["thread"]) == (message.agent, message.thread)
                if not same_line or row["status"] != "pending" or row["id"] in chosen:
                    continue
                due = row["available_at"] <= self.clock.now
                assert due or row["retry_count"] == 0, "ran although its thread is in back-off"
                waits = row["priority"] <= PASSIVE_PRIORITY or row["team"] in held_teams
                assert not due or waits or row["id"] > message.id, "overtook an older message of its thread"

    def catch_up(self) -> None:
        for event in self.run(read_all(self.store.events, self.log[-1].id if self.log else 0)):
            self.log.append(event)
            before = {number: row["status"] for number, row in self.tables.messages.items()}
            self.tables.apply(event)
            for number, row in self.tables.messages.items():
                was, now = Status(before.get(number) or row["status"]), Status(row["status"])
                assert now is was or now in TRANSITIONS[was], "an illegal move"

    def pruned(self, message_id: str) -> bool:
        return not self.rows("SELECT 1 FROM messages WHERE message_id = ? AND message <> 'again'", (message_id,))

    def rows(self, query: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        return self.reader.execute(query, parameters).fetchall()

    def table(self, query: str) -> list[dict[str, Any]]:
        cursor = self.reader.execute(query)
        return [dict(zip((column[0] for column in cursor.description), row, strict=True)) for row in cursor]
