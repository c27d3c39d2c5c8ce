"""This checkout and another one in one run, in turn: the rate of a large history in a warm session, and a small run."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO, Any

from rich.console import Console

from checkouts import BENCH, CHECKOUT, environment_of, python_of
from pipeline_small import small_runs


@dataclass(frozen=True, slots=True)
class WarmSession:
    """A session of a checkout, in a process of its own."""

    requests: IO[str]
    answers: IO[str]

    def wait(self) -> None:
        """Until it has written its history and is warm."""
        self._answer()

    def events_per_s(self) -> float:
        self.requests.write("again\n")
        self.requests.flush()
        rate: float = json.loads(self._answer())["events_per_s"]
        return rate

    def _answer(self) -> str:
        line = self.answers.readline()
        if not line:
            raise SystemExit("The session of a checkout ended; its error is above.")
        return line


def side_by_side(
    console: Console, folder: Path, other: Path, size: tuple[str, int], rounds: int, memory: str
) -> dict[str, Any]:
    """Every ratio is ours over the other's. `size` is the name and number of the events of the large history."""
    name, events = size
    # First, because it measures cold starts, and sessions that wait use some CPU.
    figures = small_runs(console, folder, rounds, other)
    rates: dict[str, list[float]] = {"ours": [], "other": []}
    with ExitStack() as open_sessions:
        sessions = {
            which: open_sessions.enter_context(_session(checkout, folder / f"warm-{which}", events, memory))
            for which, checkout in (("ours", CHECKOUT), ("other", other))
        }
        console.print(f"writing {events:,} events for each checkout", style="dim")
        for session in sessions.values():
            session.wait()
        for number in range(rounds):
            for which in ("other", "ours") if number % 2 else ("ours", "other"):
                rates[which].append(sessions[which].events_per_s())
            mine, theirs = rates["ours"][-1], rates["other"][-1]
            console.print(f"round {number + 1}: ours {mine:,.0f} events/s, other {theirs:,.0f}", style="dim")
    ratio = median(mine / theirs for mine, theirs in zip(rates["ours"], rates["other"], strict=True))
    return {
        **{f"{which}_events_per_s_{name}": round(median(found)) for which, found in rates.items()},
        f"events_per_s_{name}_ratio": round(ratio, 3),
        **figures,
    }


@contextmanager
def _session(checkout: Path, folder: Path, events: int, memory: str) -> Iterator[WarmSession]:
    folder.mkdir(parents=True)
    # -P: the benches come from the checkout, not from this folder.
    command: list[object] = [python_of(checkout), "-P", BENCH / "pipeline_warm.py", "--folder", folder]
    command += ["--events", events, "--memory", memory]
    sources = environment_of(checkout)
    paths = {"PYTHONPATH": os.pathsep.join((sources["PYTHONPATH"], str(checkout / "bench")))}
    with subprocess.Popen(
        list(map(str, command)), env={**sources, **paths}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("The process has no pipes.")
        # The process ends when its input does.
        yield WarmSession(process.stdin, process.stdout)
