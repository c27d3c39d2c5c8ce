"""TinyAGI's queue compared with other embedded queues and DBOS; the last line of stdout is one JSON object."""

import argparse
import asyncio
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Final, Literal

from rich.console import Console

from backlogs import BacklogCost, measure_backlogs
from growth import Growth, grow, measure_growth
from pickup import measure_idle, measure_pickup
from plot import draw_rates
from rates import LIBRARIES, MISSING, RIVALS, Effort, Score, Scores, introduce, measure_rates
from samples import BACKLOG, Operation, Spread
from tables import (
    HOW_TO_READ,
    backlog_table,
    failure_lines,
    growth_table,
    libraries_table,
    machine,
    pickup_line,
    rates_table,
)

HEADLINE_CALLERS: Final = 64
KEYS: Final[Mapping[Operation, str]] = {"enqueue": "enqueue", "take": "complete"}
EXAMPLE: Final = """\
example:
  python bench/queue_bench.py --quick
  python bench/queue_bench.py --quick --json-only | jq .enqueue_64_vs_huey
"""


@dataclass(frozen=True, slots=True)
class Plan:
    efforts: tuple[Effort, ...]
    growth_rounds: int
    backlog_rounds: int
    pickups: int
    idle_seconds: float


FULL: Final = Plan(
    efforts=tuple(Effort(callers, seconds=0.5, rounds=8, budget=90) for callers in (1, 16, 64, 256)),
    growth_rounds=30,
    backlog_rounds=300,
    pickups=60,
    idle_seconds=8,
)
# The headline's callers get most of the minute; short samples in more rounds stand noise better than one long sample.
QUICK: Final = Plan(
    efforts=(
        Effort(1, seconds=0.12, rounds=2, budget=3),
        Effort(16, seconds=0.12, rounds=2, budget=3),
        Effort(HEADLINE_CALLERS, seconds=0.3, rounds=5, budget=14),
        Effort(256, seconds=0.2, rounds=2, budget=4),
    ),
    growth_rounds=6,
    backlog_rounds=100,
    pickups=40,
    idle_seconds=3,
)


def main() -> None:
    options = _options()
    started = time.monotonic()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    # Without a terminal nothing limits the width of a line.
    console = Console(quiet=options.json_only, width=None if sys.stdout.isatty() else 140)
    # Next to the results and not in /tmp, which may be in memory, where a commit costs nothing.
    with tempfile.TemporaryDirectory(prefix="work-", dir=out) as folder:
        plan = QUICK if options.quick else FULL
        plan = replace(plan, efforts=tuple(replace(effort, backlog=options.backlog) for effort in plan.efforts))
        result = _run(plan, console, Path(folder), out / "queue_bench.png")
    result["backlog"] = options.backlog
    result["mode"] = "quick" if options.quick else "full"
    result["seconds"] = round(time.monotonic() - started, 1)
    print(json.dumps(result))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer and shorter samples: about a minute")
    parser.add_argument(
        "--backlog",
        type=int,
        default=BACKLOG,
        metavar="N",
        help="messages that wait when claim+complete begins; litequeue slows with it, we do not (default: %(default)s)",
    )
    parser.add_argument("--json-only", action="store_true", help="print nothing but the JSON object")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).with_name("out"),
        metavar="DIR",
        help="where the plot goes, and the databases while it runs, so a real disk (default: %(default)s)",
    )
    return parser.parse_args()


def _run(plan: Plan, console: Console, folder: Path, picture: Path) -> dict[str, object]:
    here = machine()
    console.print(here, style="dim", highlight=False)
    for name in MISSING:
        console.print(f"{name} is not installed and left out; `make bench` installs it.", highlight=False)
    libraries = introduce(folder)
    console.print(libraries_table(libraries), HOW_TO_READ, sep="\n", highlight=False)
    all_scores = []
    with console.status("") as status:
        for effort in plan.efforts:
            scores = measure_rates(effort, folder, status.update)
            all_scores.append(scores)
            console.print(rates_table(scores), *failure_lines(scores), sep="\n")
        status.update("messages of another process")
        pickup = asyncio.run(measure_pickup(folder / "pickup" / "queue.db", plan.pickups))
        status.update("a million rows")
        growth, idle_percent = asyncio.run(_grow(plan, folder))
        console.print(growth_table(growth), pickup_line(pickup, idle_percent), sep="\n")
        backlogs = asyncio.run(measure_backlogs(folder / "backlogs", plan.backlog_rounds, status.update))
        console.print(backlog_table(backlogs))
        draw_rates(libraries, all_scores, here, picture)
    console.print(f"Plot: {picture}")
    summary = _summary(all_scores, growth, backlogs, pickup, idle_percent)
    return {
        **summary,
        "durability": {library.name: library.durability for library in libraries},
        "machine": here,
    }


async def _grow(plan: Plan, folder: Path) -> tuple[Growth, float]:
    """The idle process counts its own processor time, so it can idle while this one fills a store."""
    new, grown, idle = (folder / name / "queue.db" for name in ("new", "grown", "idle"))
    idle_percent, _ = await asyncio.gather(measure_idle(idle, plan.idle_seconds), grow(grown))
    return await measure_growth(new, grown, plan.growth_rounds), idle_percent


def _summary(
    all_scores: Sequence[Scores],
    growth: Growth,
    backlogs: Sequence[BacklogCost],
    pickup: Spread,
    idle_percent: float,
) -> dict[str, object]:
    (headline,) = (scores for scores in all_scores if scores.callers == HEADLINE_CALLERS)
    return {
        **_ratios(headline, "median"),
        **{f"growth_{name}_1m": round(growth.ratio(name), 3) for name in ("enqueue", "claim", "complete", "depth")},
        "growth_rows": growth.rows,
        **{cost.name: round(cost.ratio, 3) for cost in backlogs},
        "open_1m_seconds": round(growth.open_seconds[1], 3),
        "pickup_ms": round(pickup.median, 2),
        "idle_cpu_percent": round(idle_percent, 3),
        "rounds": {scores.callers: scores.rounds for scores in all_scores},
        # The median, and the lowest and the highest of the rounds.
        "rates": _nested(all_scores, lambda score: [round(rate) for rate in astuple(score.rate)]),
        "cpu_us": _nested(all_scores, lambda score: _rounded(score.cpu * 1e6)),
        "fsync_ms": {s.callers: [round(seconds * 1e3, 3) for seconds in astuple(s.fsync)] for s in all_scores},
        "best_round": _ratios(headline, "high"),
        "failures": [line for scores in all_scores for line in _failures(scores)],
    }


def _ratios(scores: Scores, of: Literal["median", "high"]) -> dict[str, float | None]:
    """Ours over theirs; None when they finished nothing. The best rounds are those that others disturbed least."""
    return {
        f"{key}_{scores.callers}_vs_{rival.replace('-', '_')}": _rounded(scores.ratio(operation, rival, of))
        for operation, key in KEYS.items()
        for rival in RIVALS
        if (operation, rival) in scores.by_library
    }


def _rounded(ratio: float) -> float | None:
    return round(ratio, 3) if math.isfinite(ratio) else None


def _nested(all_scores: Sequence[Scores], value: Callable[[Score], object]) -> dict[str, object]:
    """Operation, library, callers: the value."""
    return {
        key: {
            library: {scores.callers: value(scores.by_library[operation, library]) for scores in all_scores}
            for library in LIBRARIES
            if (operation, library) in all_scores[0].by_library
        }
        for operation, key in KEYS.items()
    }


def _failures(scores: Scores) -> list[dict[str, object]]:
    return [
        {"library": library, "operation": KEYS[operation], "callers": scores.callers, "error": error, "count": count}
        for (operation, library), score in scores.by_library.items()
        for error, count in score.failures.items()
    ]


if __name__ == "__main__":
    main()
