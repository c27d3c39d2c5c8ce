"""A history by the generator of the benchmarks, and failures that it contains too rarely."""

import sqlite3
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Final

from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.retry import Failure, FailureKind, RetryPolicy
from tinyagi.domain.runs import Outcome
from tinyagi.store.store import Store

CLERK: Final = AgentId("clerk")
"""An agent that is not in the generated history: all its events are these failures."""
_GENERATOR: Final = Path(__file__).parents[2] / "bench/pipeline_history.py"
_AT_ONCE: Final = RetryPolicy(attempts=2, base=timedelta(), jitter=0)
_STRANGE: Final = "INSERT INTO events (type, version, payload, created_at) VALUES (?, 1, '{}', ?)"


def write_history(database: Path, *, events: int, days: int) -> None:
    """About this many events of the days before this hour, in a new database."""
    command = [
        sys.executable,
        str(_GENERATOR),
        "--database",
        str(database),
        "--events",
        str(events),
        "--days",
        str(days),
    ]
    subprocess.run(command, check=True, capture_output=True)


async def add_troubles(database: Path) -> None:
    """A message that dies after two failures, one whose second attempt succeeds, and an unknown event."""
    async with await Store.open(database) as store:
        await store.queue.enqueue(NewMessage("read report-7.pdf", CLERK, channel="web", sender="Ada"))
        await _fail(store)
        await _fail(store)
        await store.queue.enqueue(NewMessage("try again", CLERK, channel="web", sender="Ada"))
        await _fail(store)
        claim = await store.queue.claim(CLERK)
        assert claim is not None
        await store.queue.complete(claim, Outcome("it works now", response="it works now"))
        at = (await store.queue.dead())[0].updated_at
    connection = sqlite3.connect(database)
    with connection:
        connection.execute(_STRANGE, ("martian_landed", at))
    connection.close()


async def _fail(store: Store) -> None:
    claim = await store.queue.claim(CLERK)
    assert claim is not None
    await store.queue.fail(claim, Failure(FailureKind.MESSAGE, "report-7.pdf is damaged"), policy=_AT_ONCE)
