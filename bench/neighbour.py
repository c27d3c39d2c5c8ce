"""The other process of the benchmark: enqueues when it is told to, or keeps a store open and does nothing."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Final

from samples import TEXT
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import NewMessage
from tinyagi.store.store import Store

AGENT: Final = AgentId("agent")


async def enqueue_on_request(path: Path) -> None:
    """For every line, a number of seconds: wait so long, enqueue, and tell the instant at which that was durable."""
    async with await Store.open(path) as store:
        while line := await asyncio.to_thread(sys.stdin.readline):
            await asyncio.sleep(float(line))
            await store.queue.enqueue(NewMessage(TEXT, AGENT))
            print(time.monotonic_ns(), flush=True)


async def idle(path: Path, seconds: float) -> None:
    """Tell how many percent of a core an open store uses while nothing happens."""
    async with await Store.open(path):
        wall, used = time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        print(100 * (time.process_time() - used) / (time.monotonic() - wall), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "enqueue":
        asyncio.run(enqueue_on_request(Path(sys.argv[2])))
    else:
        asyncio.run(idle(Path(sys.argv[2]), float(sys.argv[3])))
