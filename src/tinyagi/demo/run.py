"""Plays the demo: fills the queue, kills the worker in the middle with -9, starts another, and counts."""

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tinyagi.demo.report import Report, read_log, summarise
from tinyagi.demo.scenario import messages
from tinyagi.settings import Home
from tinyagi.store.base import QueueDepth, Store
from tinyagi.wiring import open_store

Progress = Callable[[str, int, int], None]
"""Called with what is going on, how many messages are done, and of how many."""


async def play(home: Path, count: int, progress: Progress) -> Report:
    """Run `count` messages through the queue and report what became of them."""
    store = await open_store(Home(home))
    try:
        started = time.monotonic()
        await asyncio.gather(*(store.queue.enqueue(message) for message in messages(count)))
        progress("first worker", 0, count)
        worker = await _start_worker(home)
        try:
            await _until(store, lambda depth: _done(depth) >= count // 3, "first worker", count, progress)
            await _kill_in_the_middle(store, worker)
            progress("killed with -9, second worker", _done(await store.queue.depth()), count)
            worker = await _start_worker(home)
            await _until(store, lambda depth: _done(depth) >= count, "killed with -9, second worker", count, progress)
            seconds = time.monotonic() - started
            worker.terminate()
        finally:
            if worker.returncode is None:
                await _end(worker)
        return summarise(await read_log(store), seconds)
    finally:
        await store.close()


async def _kill_in_the_middle(store: Store, worker: asyncio.subprocess.Process) -> None:
    """Kill with -9 while something is half done, not between two runs: that is the point of it."""
    worker.send_signal(signal.SIGSTOP)
    while not await store.queue.processing():
        worker.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.001)
        worker.send_signal(signal.SIGSTOP)
    worker.kill()
    await worker.wait()


def _done(depth: QueueDepth) -> int:
    return depth.completed + depth.dead


async def _until(
    store: Store, reached: Callable[[QueueDepth], bool], stage: str, count: int, progress: Progress
) -> None:
    while True:
        seen = store.changes.version
        depth = await store.queue.depth()
        progress(stage, _done(depth), count)
        if reached(depth):
            return
        await store.changes.beyond(seen)


async def _start_worker(home: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "tinyagi.demo.worker", str(home))


async def _end(worker: asyncio.subprocess.Process) -> None:
    try:
        await asyncio.wait_for(worker.wait(), timeout=10)
    except TimeoutError:
        worker.kill()
        await worker.wait()
