"""POST /api/message compared with the bare HTTP server it runs on, and the cost of readers and blocked lanes.

Every figure of ours is durable: the daemon as people run it, WAL with synchronous=FULL, an answer after the commit. The
lane is paused, so that only what the API does is measured. Server and client are processes of their own; beside each
rate is the CPU time that the server's process used per request. The limit is measured twice: uvicorn as it is
installed, with its own parser (`bare`), and with httptools, several times as fast, which our server has
(`bare_httptools`). The last line of stdout is one JSON object.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from http_blocked import blocked_lane
from http_servers import HERE, START_SECONDS, Figures, Running, bare, daemon, measure, middle

EXAMPLE: Final = """\
example:
  python bench/http_bench.py --quick
  python bench/http_bench.py --json-only | jq .rps_64_vs_bare
  python bench/http_bench.py --against ../before    # another checkout, round by round
"""
CONNECTIONS: Final = (1, 16, 64)
READERS: Final = (1, 50, 200)
COMPARED: Final = ("rps", "p50_ms", "p99_ms", "cpu_us")


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    seconds: float


QUICK: Final = Plan(3, 2)
FULL: Final = Plan(7, 5)


@dataclass(frozen=True, slots=True)
class Servers:
    daemon: Running
    bare: Running
    bare_httptools: Running


def compare(plan: Plan, servers: Servers, console: Console) -> dict[str, float]:
    table = Table("conns", "server", "requests/s", "ours over it", "p50 ms", "p99 ms", "CPU µs", "client")
    table.title = "POST /api/message"
    figures_by_name: dict[str, float] = {}
    for connections in CONNECTIONS:
        # Side by side in every round, because the machine's pace changes from one minute to the next.
        rounds = [
            [
                measure(server, connections, plan.seconds)
                for server in (servers.daemon, servers.bare, servers.bare_httptools)
            ]
            for _ in range(plan.rounds)
        ]
        mine, plain, fast = (middle(one[place] for one in rounds) for place in range(3))
        ratio = median(one[0].rps / one[1].rps for one in rounds)
        strict = median(one[0].rps / one[2].rps for one in rounds)
        tail = median(one[0].p99_ms / one[0].p50_ms for one in rounds)
        table.add_row(str(connections), "ours", *_cells(mine, ""))
        table.add_row("", "bare, h11", *_cells(plain, f"{ratio:.2f}"))
        table.add_row("", "bare, httptools", *_cells(fast, f"{strict:.2f}"), end_section=True)
        figures_by_name |= {
            f"rps_{connections}": round(mine.rps, 1),
            f"rps_{connections}_vs_bare": round(ratio, 3),
            f"rps_{connections}_vs_bare_httptools": round(strict, 3),
            f"p50_ms_{connections}": round(mine.p50_ms, 2),
            f"p99_ms_{connections}": round(mine.p99_ms, 2),
            f"p99_over_p50_{connections}": round(tail, 2),
            f"cpu_us_per_request_{connections}": round(mine.cpu_us, 1),
            f"bare_cpu_us_per_request_{connections}": round(plain.cpu_us, 1),
            f"bare_httptools_cpu_us_per_request_{connections}": round(fast.cpu_us, 1),
        }
    console.print(table)
    return figures_by_name


def _cells(one: Figures, ratio: str) -> tuple[str, ...]:
    figures = (f"{one.p50_ms:.2f}", f"{one.p99_ms:.2f}", f"{one.cpu_us:.0f}", f"{one.client_cpu:.0%}")
    return (f"{one.rps:,.0f}", ratio, *figures)


def side_by_side(plan: Plan, other: Path, console: Console) -> dict[str, float]:
    """The same load on this checkout and another one, in turn; every ratio is ours over the other's."""
    table = Table("conns", "checkout", "requests/s", "p50 ms", "p99 ms", "CPU µs", "client")
    figures_by_name: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="tinyagi-bench-") as folder:
        base = Path(folder)
        with daemon(base / "ours") as ours, daemon(base / "other", checkout=other) as others:
            for connections in CONNECTIONS:
                rounds: list[tuple[Figures, Figures]] = []
                for number in range(plan.rounds):
                    if number % 2:
                        theirs = measure(others, connections, plan.seconds)
                        rounds.append((measure(ours, connections, plan.seconds), theirs))
                    else:
                        mine = measure(ours, connections, plan.seconds)
                        rounds.append((mine, measure(others, connections, plan.seconds)))
                for place, name in enumerate(("ours", "other")):
                    one = middle(pair[place] for pair in rounds)
                    figures = (f"{one.p50_ms:.2f}", f"{one.p99_ms:.2f}", f"{one.cpu_us:.0f}", f"{one.client_cpu:.0%}")
                    table.add_row(str(connections), name, f"{one.rps:,.0f}", *figures)
                    figures_by_name |= {
                        f"{name}_{field}_{connections}": round(getattr(one, field), 2) for field in COMPARED
                    }
                for field in COMPARED:
                    ratio = median(getattr(mine, field) / getattr(theirs, field) for mine, theirs in rounds)
                    figures_by_name[f"{field}_{connections}_ratio"] = round(ratio, 3)
                ratios = (f"{figures_by_name[f'{field}_{connections}_ratio']:.2f}" for field in COMPARED)
                table.add_row("", "ratio", *ratios, "", end_section=True)
    console.print(table)
    return figures_by_name


@contextlib.contextmanager
def reading(server: Running, readers: int) -> Iterator[dict[str, int]]:
    """Readers of live events during the block; afterwards, the bytes they received."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "http_load.py"), "--port", str(server.port), "--readers", str(readers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    figures_by_name: dict[str, int] = {}
    try:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise SystemExit("the readers did not start")
        yield figures_by_name
        output, _ = process.communicate("done\n", timeout=START_SECONDS)
        figures_by_name.update(json.loads(output))
    finally:
        process.kill()
        process.wait()


def readers_cost(plan: Plan, server: Running, console: Console) -> dict[str, float]:
    table = Table("readers", "requests/s without", "with", "cost", "sent MB/s", "readers lost", title="Live events")
    figures_by_name: dict[str, float] = {}
    for readers in READERS:
        rounds: list[tuple[float, float, float, int]] = []
        for _ in range(plan.rounds):
            alone = measure(server, 64, plan.seconds).rps
            began = time.perf_counter()
            with reading(server, readers) as sent:
                crowded = measure(server, 64, plan.seconds).rps
                seconds = time.perf_counter() - began
            rounds.append((alone, crowded, sent["bytes"] / seconds / 1e6, sent["ended"]))
        cost = median(1 - crowded / alone for alone, crowded, _, _ in rounds)
        alone, crowded, rate = (median(one[place] for one in rounds) for place in range(3))
        lost = sum(ended for *_, ended in rounds)
        table.add_row(str(readers), f"{alone:,.0f}", f"{crowded:,.0f}", f"{cost:.0%}", f"{rate:.1f}", str(lost))
        figures_by_name |= {f"sse_{readers}_cost": round(cost, 3), f"sse_{readers}_lost": lost}
    console.print(table)
    return figures_by_name


def all_figures(plan: Plan, console: Console) -> dict[str, float]:
    with (
        tempfile.TemporaryDirectory(prefix="tinyagi-bench-") as folder,
        bare("h11") as plain,
        bare("httptools") as fast,
        daemon(Path(folder)) as ours,
    ):
        figures_by_name = compare(plan, Servers(ours, plain, fast), console)
        figures_by_name["cpu_us_per_request"] = figures_by_name["cpu_us_per_request_64"]
        figures_by_name |= readers_cost(plan, ours, console)
    return figures_by_name | blocked_lane(plan.rounds, plan.seconds, console)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about two minutes instead of eight")
    parser.add_argument("--json-only", action="store_true", help="print nothing but the JSON line")
    parser.add_argument("--against", type=Path, metavar="PATH", help="compare POST with another checkout, nothing else")
    options = parser.parse_args()
    plan = QUICK if options.quick else FULL
    console = Console(quiet=options.json_only, highlight=False)
    if options.against is None:
        figures_by_name = all_figures(plan, console)
    else:
        figures_by_name = side_by_side(plan, options.against.resolve(), console)
    sys.stdout.write(json.dumps(figures_by_name) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
