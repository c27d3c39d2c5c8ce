"""One sample: callers repeat an operation concurrently for a while, and finished operations are counted."""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, Literal, NamedTuple, Protocol

Operation = Literal["enqueue", "take"]
OPERATIONS: Final[tuple[Operation, ...]] = ("enqueue", "take")

TEXT: Final = "Please look into case 4711 and tell the customer what will happen next with it."
ANSWER: Final = "The parcel was found and leaves today; the customer has been told so."

BACKLOG: Final = 3200
"""Messages that wait when a take begins, fifty for each of 64 callers: the same for all libraries, because some of them
search their whole backlog, and a shorter one flatters them. `--backlog` shows how much it matters."""
WARM_UP: Final = 16
FSYNCS: Final = 20
PAGE: Final = bytes(4096)


class Contender(Protocol):
    """A library with one open queue on fresh files."""

    name: str
    keeps: str
    """What remains of a finished message."""

    @property
    def durability(self) -> str:
        """Journal mode and synchronous level of the writing connection."""

    def warm_up(self) -> None:
        """Enqueue and take a few messages, one after the other."""

    def fill(self, messages: int) -> None:
        """Enqueue this many messages for the callers to take."""

    def run(self, operation: Operation, seconds: float) -> "Sample":
        """Let all callers repeat the operation until the time is over or nothing is left."""

    def close(self) -> None:
        """Let go of the files."""


@dataclass(frozen=True, slots=True)
class Sample:
    operations: int
    seconds: float
    ran_dry: bool
    """Nothing was left to take before the time was over."""
    slowest: float
    """Seconds of the longest single operation, also of those that ended after the time was over."""
    failures: tuple[str, ...] = ()
    cpu: float = 0.0
    """Seconds of processor time, in all threads of this process."""
    late: int = 0
    """Operations that ended after the time was over: they cost processor time, but are no part of the rate."""

    @property
    def rate(self) -> float:
        return self.operations / self.seconds

    @property
    def cpu_per_operation(self) -> float:
        """Infinite when no operation ended."""
        ended = self.operations + self.late
        return self.cpu / ended if ended else float("inf")

    def __add__(self, other: "Sample") -> "Sample":
        return Sample(
            self.operations + other.operations,
            self.seconds + other.seconds,
            other.ran_dry,
            max(self.slowest, other.slowest),
            self.failures + other.failures,
            self.cpu + other.cpu,
            self.late + other.late,
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, minimum and maximum of the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        ordered = sorted(values)
        return cls(median(ordered), ordered[0], ordered[-1])


class _Tally(NamedTuple):
    finished: int
    last: float
    slowest: float
    is_dry: bool = False
    failure: str | None = None


class _Window:
    """Operations that end after the window do not count: callers waiting for a lock would stretch it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.start = self.end = self.cpu = 0.0

    def open(self) -> None:
        self.cpu = time.process_time()
        self.start = time.perf_counter()
        self.end = self.start + self.seconds

    def sample(self, tallies: Iterable[_Tally]) -> Sample:
        tallies = list(tallies)
        cpu = time.process_time() - self.cpu
        ran_dry = all(tally.is_dry or tally.failure for tally in tallies)
        seconds = max(tally.last for tally in tallies) - self.start if ran_dry else self.seconds
        failures = tuple(tally.failure for tally in tallies if tally.failure)
        finished = sum(tally.finished for tally in tallies)
        slowest = max(tally.slowest for tally in tallies)
        late = sum(not tally.is_dry and tally.failure is None for tally in tallies)
        return Sample(finished, max(seconds, 1e-9), ran_dry, slowest, failures, cpu, late)


def sample_fsync(folder: Path) -> float:
    """Median seconds of a 4 KiB append and its fsync."""
    path = folder / "fsync"
    seconds = []
    with path.open("wb", buffering=0) as file:
        for _ in range(FSYNCS):
            started = time.perf_counter()
            file.write(PAGE)
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - started)
    path.unlink()
    return median(seconds)


def sample_take(contender: Contender, seconds: float, backlog: int) -> Sample:
    """Drain the backlog, as often as it takes to fill the time; filling it is not timed."""
    contender.fill(backlog)
    sample = contender.run("take", seconds)
    while sample.ran_dry and sample.seconds < seconds and not sample.failures:
        contender.fill(backlog)
        sample += contender.run("take", seconds)
    return sample


def in_threads(operation: Callable[[int], bool], callers: int, seconds: float) -> Sample:
    """Run with a thread per caller; all start at the same instant."""
    window = _Window(seconds)
    gate = threading.Barrier(callers, action=window.open)

    def call(caller: int) -> _Tally:
        gate.wait()
        finished, last, slowest = 0, window.start, 0.0
        try:
            while operation(caller):
                now = time.perf_counter()
                slowest = max(slowest, now - last)
                if now > window.end:
                    return _Tally(finished, last, slowest)
                finished, last = finished + 1, now
        except Exception as error:  # a library that gives up under load is a result, not a mistake of the benchmark
            return _Tally(finished, last, slowest, failure=_name(error))
        return _Tally(finished, last, slowest, is_dry=True)

    with ThreadPoolExecutor(callers) as pool:
        return window.sample(pool.map(call, range(callers)))


async def in_tasks(operation: Callable[[int], Awaitable[bool]], callers: int, seconds: float) -> Sample:
    """Run with a task per caller in this event loop; the counterpart of `in_threads`."""
    window = _Window(seconds)

    async def call(caller: int) -> _Tally:
        finished, last, slowest = 0, window.start, 0.0
        try:
            while await operation(caller):
                now = time.perf_counter()
                slowest = max(slowest, now - last)
                if now > window.end:
                    return _Tally(finished, last, slowest)
                finished, last = finished + 1, now
        except Exception as error:
            return _Tally(finished, last, slowest, failure=_name(error))
        return _Tally(finished, last, slowest, is_dry=True)

    window.open()
    return window.sample(await asyncio.gather(*(call(caller) for caller in range(callers))))


def _name(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
