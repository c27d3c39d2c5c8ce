"""A small run of the pipeline: a few new events on a full lake, by the command as people run it, with a cold Java.

Beside it, in turn: a process that starts PySpark as it is installed and counts once (`bare start`). The same run
without Java's class archive is what the first run of an installation costs (`first run`).
"""

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from checkouts import BENCH, CHECKOUT, environment_of, python_of
from process_cost import Cost, cost_of
from tinyagi.pipeline.spark.java import find_java
from tinyagi.settings.environment import snapshot

EVENTS: Final = 100_000
"""In the lake before the first small run."""
END_AT: Final = 1_792_224_000_000
"""2026-10-17. Each small run continues the history by a day, and those days must not lie in the future."""
NEW_EVENTS: Final = 60
QUERY: Final = "SELECT agent, sum(cost) FROM gold.agent_hourly GROUP BY agent"
ROUNDS: Final = 3
QUICK_ROUNDS: Final = 1
_JOB_START: Final = "SparkListenerJobStart"


@dataclass(frozen=True, slots=True)
class Round:
    """One after the other, so that the machine's pace is the same for all."""

    bare: Cost
    small: Cost
    first: Cost
    nothing: Cost
    help: Cost
    query: Cost
    """Over `help`, which only starts the command, it is the time of a query of a gold table."""


@dataclass(frozen=True, slots=True)
class LakeHome:
    """A home with a lake, and the checkout whose commands work on it."""

    path: Path
    checkout: Path
    java: Path
    """For the bare start: the Java that the command finds, with a `bin/java` that leaves out options it lacks."""

    def create(self) -> None:
        self.path.mkdir(parents=True, mode=0o700)
        self._history("--events", EVENTS, "--seed", 1, "--end-at", END_AT)
        self.update()

    def append(self, seed: int) -> None:
        self._history("--append", NEW_EVENTS, "--seed", seed)

    def update(self, **pipeline: object) -> Cost:
        """The command `tinyagi pipeline run` with these settings of `pipeline`; a checkout ignores unknown ones."""
        (self.path / "settings.json").write_text(json.dumps({"pipeline": pipeline}), encoding="utf-8")
        return self._command("run", "--quiet")

    def help(self) -> Cost:
        return self._command("--help")

    def query(self) -> Cost:
        return self._command("query", QUERY)

    def _command(self, *words: str) -> Cost:
        """A `tinyagi pipeline` command."""
        command = [str(python_of(self.checkout)), "-m", "tinyagi", "--home", str(self.path), "pipeline", *words]
        return cost_of(command, environment_of(self.checkout))

    def bare_start(self) -> Cost:
        command = (python_of(self.checkout), BENCH / "pipeline_bare.py")
        return cost_of(command, {**environment_of(self.checkout), "JAVA_HOME": str(self.java)})

    def _history(self, *options: object) -> None:
        script = self.checkout / "bench/pipeline_history.py"
        command = [python_of(self.checkout), script, "--database", self.path / "tinyagi.db", *options]
        done = subprocess.run(
            list(map(str, command)), env=environment_of(self.checkout), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{script} failed:\n{done.stderr}")


def small_run(console: Console, folder: Path, rounds: int) -> dict[str, Any]:
    """The figures of this checkout."""
    home = lake_home(folder, CHECKOUT)
    return _figures(measure(console, {"ours": home}, rounds)["ours"], count_jobs(home))


def small_runs(console: Console, folder: Path, rounds: int, other: Path) -> dict[str, Any]:
    """The figures of this checkout and another one, and ours over the other's."""
    homes = {"ours": lake_home(folder / "ours", CHECKOUT), "other": lake_home(folder / "other", other)}
    measured = measure(console, homes, rounds)
    figures = {
        f"{name}_{key}": value
        for name, home in homes.items()
        for key, value in _figures(measured[name], count_jobs(home)).items()
    }
    pairs = list(zip(measured["ours"], measured["other"], strict=True))
    return figures | {
        "small_run_ratio": _middle(ours.small.seconds / others.small.seconds for ours, others in pairs),
        "small_run_cpu_ratio": _middle(ours.small.cpu_seconds / others.small.cpu_seconds for ours, others in pairs),
    }


def lake_home(folder: Path, checkout: Path) -> LakeHome:
    """A home with a lake that is up to date. One more small run leaves nothing that only the second run does."""
    home = LakeHome(folder / "home", checkout, find_java(snapshot(), folder / "java").home)
    home.create()
    home.append(99)
    home.update()
    return home


def measure(console: Console, homes: Mapping[str, LakeHome], rounds: int) -> dict[str, list[Round]]:
    table = Table("round", "checkout", "what", "seconds", "CPU seconds", "Python processes")
    table.title = f"{NEW_EVENTS} new events on a lake of {EVENTS:,}"
    measured: dict[str, list[Round]] = {name: [] for name in homes}
    for number in range(rounds):
        # Each of them goes first in turn.
        names = [*homes][:: -1 if number % 2 else 1]
        for name in names:
            one = _round(homes[name], number)
            measured[name].append(one)
            for what in Round.__slots__:
                cost: Cost = getattr(one, what)
                figures = (f"{cost.seconds:.1f}", f"{cost.cpu_seconds:.1f}", str(cost.python_processes))
                table.add_row(str(number + 1), name, what, *figures)
    console.print(table)
    return measured


def _round(home: LakeHome, number: int) -> Round:
    home.append(100 + 2 * number)
    bare = home.bare_start()
    small = home.update()
    nothing = home.update()
    start, query = home.help(), home.query()
    home.append(101 + 2 * number)
    return Round(bare, small, home.update(class_archive=False), nothing, start, query)


def count_jobs(home: LakeHome) -> int | None:
    """Spark's jobs in one more small run, from its event log; None for a checkout without that setting."""
    folder = home.path.parent / "event-log"
    folder.mkdir()
    home.append(98)
    home.update(event_log=str(folder))
    logs = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    events = [json.loads(line)["Event"] for path in logs for line in path.read_text("utf-8").splitlines()]
    return events.count(_JOB_START) if events else None


def _figures(rounds: list[Round], jobs: int | None) -> dict[str, Any]:
    return {
        "small_run_vs_bare_start": _middle(one.small.seconds / one.bare.seconds for one in rounds),
        "small_run_cpu_vs_bare_start": _middle(one.small.cpu_seconds / one.bare.cpu_seconds for one in rounds),
        "first_run_vs_bare_start": _middle(one.first.seconds / one.bare.seconds for one in rounds),
        "first_run_cpu_vs_bare_start": _middle(one.first.cpu_seconds / one.bare.cpu_seconds for one in rounds),
        "small_run_seconds": _middle(one.small.seconds for one in rounds),
        "small_run_cpu_seconds": _middle(one.small.cpu_seconds for one in rounds),
        "bare_start_seconds": _middle(one.bare.seconds for one in rounds),
        "bare_start_cpu_seconds": _middle(one.bare.cpu_seconds for one in rounds),
        "small_run_jobs": jobs,
        "small_run_python_processes": max(one.small.python_processes for one in rounds),
        "nothing_new_seconds": _middle(one.nothing.seconds for one in rounds),
        "query_ms": _middle(1_000 * (one.query.seconds - one.help.seconds) for one in rounds),
    }


def _middle(figures: Iterable[float]) -> float:
    return round(median(figures), 3)
