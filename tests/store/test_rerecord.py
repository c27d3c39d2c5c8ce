"""The cost of recording rows again whose events are pruned."""

import random
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tests.support.vm_steps import counted_vm_steps
from tinyagi.store.store import Store

FILL = """WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows)
INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content, created_at, last_event_id)
SELECT 'coder', 'user', 'api', 'API', 'm' || n, 'x', 1, n + :offset FROM numbers"""
LOG = "INSERT INTO events (id, type, version, payload, created_at) VALUES (?, 'processor_start', 1, '{}', 1)"


@pytest.mark.parametrize("offset", [0, 1_000_000], ids=["all lost", "none lost"])
async def test_the_cost_of_a_slice_does_not_grow_with_the_rows(tmp_path: Path, offset: int) -> None:
    costs = [await costliest_statement(tmp_path / f"{rows}.db", rows, offset) for rows in (2_000, 10_000)]

    assert costs[1] < 1.2 * costs[0]


async def costliest_statement(path: Path, rows: int, offset: int) -> int:
    async with await Store.open(path, clock=FakeClock(), dice=random.Random(1)) as store:
        connection = store._writer._connection
        connection.execute(FILL, {"rows": rows, "offset": offset})
        connection.execute(LOG, (2_000_000,))
        with counted_vm_steps(connection) as steps:
            recorded = await store.queue.rerecord(after=0, before=1_000_000)
    assert recorded == (0 if offset else rows)
    return max(steps)
