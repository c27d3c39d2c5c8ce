"""Operations per second of all libraries at several numbers of callers, in rounds so that noise is shared."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Final, Literal

from ours import Ours
from rivals import Dbos, Huey, InThreads, Lite, Persist
from samples import BACKLOG, Contender, Operation, Sample, Spread, sample_fsync, sample_take

OURS: Final = Ours.name
OPEN: Final[Mapping[str, Callable[[Path, int], Contender]]] = {
    Ours.name: Ours,
    Huey.name: lambda folder, callers: InThreads(Huey(folder), callers),
    Lite.name: lambda folder, callers: InThreads(Lite(folder, callers), callers),
    Persist.name: lambda folder, callers: InThreads(Persist(folder), callers),
    Dbos.name: lambda folder, callers: InThreads(Dbos(folder), callers),
}
MISSING: Final = tuple(name for name in (Dbos.name,) if find_spec(name) is None)
"""Libraries that are not installed and that the bench can do without."""
LIBRARIES: Final = tuple(name for name in OPEN if name not in MISSING)
ENQUEUE_ONLY: Final = frozenset({Dbos.name})
"""Libraries that run what is enqueued themselves: they have an `enqueue` score and no `take` score."""
RIVALS: Final = tuple(name for name in LIBRARIES if name != OURS)
MIN_ROUNDS: Final = 2


@dataclass(frozen=True, slots=True)
class Library:
    name: str
    durability: str
    keeps: str


@dataclass(frozen=True, slots=True)
class Effort:
    """How thoroughly the libraries are measured with this many callers."""

    callers: int
    seconds: float
    """Duration of one sample."""
    rounds: int
    budget: float
    """Seconds after which no further round is started; the first two always run."""
    backlog: int = BACKLOG
    """Messages that wait when a take begins."""


@dataclass(frozen=True, slots=True)
class Score:
    """The result of one library over all rounds of one operation."""

    rate: Spread
    """Operations per second."""
    slowest: float
    failures: Counter[str]
    cpu: float
    """Seconds of processor time per operation."""

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> "Score":
        return cls(
            rate=Spread.of(sample.rate for sample in samples),
            slowest=max(sample.slowest for sample in samples),
            failures=Counter(failure for sample in samples for failure in sample.failures),
            cpu=median(sample.cpu_per_operation for sample in samples),
        )


@dataclass(frozen=True, slots=True)
class Scores:
    """All libraries with one number of callers."""

    callers: int
    rounds: int
    by_library: Mapping[tuple[Operation, str], Score]
    fsync: Spread
    """Seconds of a small write and its fsync, sampled in every round: the cost of a single commit."""

    def ratio(self, operation: Operation, rival: str, of: Literal["median", "high"] = "median") -> float:
        """Ours over theirs; infinite when they finished nothing."""
        ours, theirs = (getattr(self.by_library[operation, library].rate, of) for library in (OURS, rival))
        return float(ours / theirs) if theirs else float("inf")


def introduce(folder: Path) -> list[Library]:
    """The default durability of the libraries, read from their open connections."""
    libraries = []
    for name in LIBRARIES:
        with _fresh(name, folder, callers=1) as contender:
            libraries.append(Library(name, contender.durability, contender.keeps))
    return libraries


def measure_rates(effort: Effort, folder: Path, report: Callable[[str], None]) -> Scores:
    """Measure every library once per round; each round starts with another one."""
    started = time.monotonic()
    samples: dict[tuple[Operation, str], list[Sample]] = {}
    fsyncs = []
    rounds = 0
    while rounds < effort.rounds and (rounds < MIN_ROUNDS or time.monotonic() - started < effort.budget):
        first = rounds % len(LIBRARIES)
        rounds += 1
        fsyncs.append(sample_fsync(folder))
        for library in LIBRARIES[first:] + LIBRARIES[:first]:
            report(f"{effort.callers} callers, round {rounds}: {library}")
            with _fresh(library, folder, effort.callers) as contender:
                contender.warm_up()
                # Takes come first: they find the backlog and nothing else.
                if library not in ENQUEUE_ONLY:
                    taken = sample_take(contender, effort.seconds, effort.backlog)
                    samples.setdefault(("take", library), []).append(taken)
                samples.setdefault(("enqueue", library), []).append(contender.run("enqueue", effort.seconds))
    scores = {key: Score.of(of_rounds) for key, of_rounds in samples.items()}
    return Scores(effort.callers, rounds, scores, Spread.of(fsyncs))


@contextmanager
def _fresh(library: str, folder: Path, callers: int) -> Iterator[Contender]:
    """The library on new files, which are deleted afterwards."""
    own = folder / library
    own.mkdir(parents=True)
    try:
        contender = OPEN[library](own, callers)
        try:
            yield contender
        finally:
            contender.close()
    finally:
        shutil.rmtree(own)
