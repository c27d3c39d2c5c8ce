"""The other process of the benchmark: enqueues on request, or keeps an idle store open."""

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
    """For every line with a number of seconds: wait, enqueue, and print the time of the durable commit."""
    async with await Store.open(path) as store:
        while line := await asyncio.to_thread(sys.stdin.readline):
            await asyncio.sleep(float(line))
            await store.queue.enqueue(NewMessage(TEXT, AGENT))
            print(time.monotonic_ns(), flush=True)


async def idle(path: Path, seconds: float) -> None:
    """Print the percentage of a core that an idle open store uses."""
    async with await Store.open(path):
        wall, used = time.monotonic(), time.process_time()
        await asyncio.sleep(seconds)
        print(100 * (time.process_time() - used) / (time.monotonic() - wall), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "enqueue":
        asyncio.run(enqueue_on_request(Path(sys.argv[2])))
    else:
        asyncio.run(idle(Path(sys.argv[2]), float(sys.argv[3])))
