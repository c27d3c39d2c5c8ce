"""POST /api/message beside the bare HTTP server it stands on, and what readers of live events cost it.

Every figure of ours is durable: the daemon as people run it, WAL with synchronous=FULL, an answer after the commit. The
lane is paused, so that only what the API does is measured. The limit is measured twice: uvicorn as it is installed,
with its own parser (`bare`), and with httptools, several times as fast, which our server has (`bare_httptools`).
The last line of stdout is one JSON object.
"""

import argparse
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import httpx
import psutil
from rich.console import Console
from rich.table import Table

HERE: Final = Path(__file__).parent
EXAMPLE: Final = """\
example:
  python bench/http_bench.py --quick
  python bench/http_bench.py --json-only | jq .rps_64_vs_bare
"""
CONNECTIONS: Final = (1, 16, 64)
READERS: Final = (1, 50, 200)
START_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    seconds: float


QUICK: Final = Plan(3, 2)
FULL: Final = Plan(7, 5)


@dataclass(frozen=True, slots=True)
class Figures:
    """One measurement of one server."""

    rps: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    """CPU time of the server's process per request."""


@dataclass(frozen=True, slots=True)
class Running:
    port: int
    process: psutil.Process


@contextlib.contextmanager
def bare(parser: str = "httptools") -> Iterator[Running]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    with process_of(str(HERE / "http_bare.py"), str(port), parser) as process:
        until_it_listens(port, process)
        yield Running(port, process)


@contextlib.contextmanager
def ours(folder: Path) -> Iterator[Running]:
    """The daemon on a home of its own, its one lane paused."""
    home = folder / "home"
    home.mkdir()
    settings = {
        "workspace": {"path": str(folder / "workspace")},
        "agents": {"writer": {"name": "Writer", "provider": "scripted", "heartbeat": {"enabled": False}}},
        "server": {"port": 0},
    }
    (home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    with process_of("-m", "tinyagi", "run", "--quiet", "--home", str(home)) as process:
        port = port_of(home / "tinyagi.pid", process)
        until_it_listens(port, process)
        url = f"http://127.0.0.1:{port}/api/queue/agents/writer/pause"
        httpx.post(url, headers={"content-type": "application/json"}, trust_env=False).raise_for_status()
        yield Running(port, process)


@contextlib.contextmanager
def process_of(*arguments: str) -> Iterator[psutil.Process]:
    process = psutil.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(START_SECONDS)


def port_of(pid_file: Path, process: psutil.Process) -> int:
    """The port that the daemon has found, from its pid file."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.is_running():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads(pid_file.read_text(encoding="utf-8"))["port"])
        time.sleep(0.05)
    raise SystemExit("the daemon did not start")


def until_it_listens(port: int, process: psutil.Process) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.is_running():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


def measure(server: Running, connections: int, seconds: float) -> Figures:
    command = ["--port", str(server.port), "--connections", str(connections), "--seconds", str(seconds)]
    before, began = cpu_of(server.process), time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(HERE / "http_load.py"), *command], check=True, capture_output=True, text=True
    )
    figures = json.loads(done.stdout)
    # The process that sends also starts and settles; the server's time is spread over all of it.
    busy = (cpu_of(server.process) - before) / (figures["rps"] * (time.perf_counter() - began))
    return Figures(figures["rps"], figures["p50_ms"], figures["p99_ms"], busy * 1e6)


def cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


@contextlib.contextmanager
def reading(server: Running, readers: int) -> Iterator[dict[str, int]]:
    """So many readers of live events; afterwards, how much they were sent."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "http_load.py"), "--port", str(server.port), "--readers", str(readers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    told: dict[str, int] = {}
    try:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            raise SystemExit("the readers did not start")
        yield told
        output, _ = process.communicate("done\n", timeout=START_SECONDS)
        told.update(json.loads(output))
    finally:
        process.kill()
        process.wait()


def middle(rounds: list[Figures]) -> Figures:
    return Figures(*(median(getattr(one, name) for one in rounds) for name in ("rps", "p50_ms", "p99_ms", "cpu_us")))


@dataclass(frozen=True, slots=True)
class Servers:
    daemon: Running
    bare: Running
    bare_httptools: Running


def compare(plan: Plan, servers: Servers, console: Console) -> dict[str, float]:
    table = Table("conns", "ours/s", "bare/s", "ratio", "httptools", "ratio", "p50 ms", "p99 ms", "CPU µs")
    table.title = "POST /api/message"
    told: dict[str, float] = {}
    for connections in CONNECTIONS:
        # Side by side in every round, because the machine's pace changes from one minute to the next.
        rounds = [
            [
                measure(server, connections, plan.seconds)
                for server in (servers.daemon, servers.bare, servers.bare_httptools)
            ]
            for _ in range(plan.rounds)
        ]
        mine, plain, fast = (middle([one[place] for one in rounds]) for place in range(3))
        ratio = median(one[0].rps / one[1].rps for one in rounds)
        strict = median(one[0].rps / one[2].rps for one in rounds)
        tail = median(one[0].p99_ms / one[0].p50_ms for one in rounds)
        table.add_row(
            str(connections),
            *(f"{mine.rps:,.0f}", f"{plain.rps:,.0f}", f"{ratio:.2f}", f"{fast.rps:,.0f}", f"{strict:.2f}"),
            *(f"{mine.p50_ms:.2f}", f"{mine.p99_ms:.2f}", f"{mine.cpu_us:.0f}"),
        )
        told |= {
            f"rps_{connections}": round(mine.rps, 1),
            f"rps_{connections}_vs_bare": round(ratio, 3),
            f"rps_{connections}_vs_bare_httptools": round(strict, 3),
            f"p50_ms_{connections}": round(mine.p50_ms, 2),
            f"p99_over_p50_{connections}": round(tail, 2),
            f"cpu_us_per_request_{connections}": round(mine.cpu_us, 1),
            f"bare_cpu_us_per_request_{connections}": round(plain.cpu_us, 1),
            f"bare_httptools_cpu_us_per_request_{connections}": round(fast.cpu_us, 1),
        }
    console.print(table)
    return told


def readers_cost(plan: Plan, daemon: Running, console: Console) -> dict[str, float]:
    table = Table("readers", "requests/s without", "with", "cost", "sent MB/s", "readers lost", title="Live events")
    told: dict[str, float] = {}
    for readers in READERS:
        rounds: list[tuple[float, float, float, int]] = []
        for _ in range(plan.rounds):
            alone = measure(daemon, 64, plan.seconds).rps
            began = time.perf_counter()
            with reading(daemon, readers) as sent:
                crowded = measure(daemon, 64, plan.seconds).rps
                seconds = time.perf_counter() - began
            rounds.append((alone, crowded, sent["bytes"] / seconds / 1e6, sent["ended"]))
        cost = median(1 - crowded / alone for alone, crowded, _, _ in rounds)
        alone, crowded, rate = (median(one[place] for one in rounds) for place in range(3))
        lost = sum(ended for *_, ended in rounds)
        table.add_row(str(readers), f"{alone:,.0f}", f"{crowded:,.0f}", f"{cost:.0%}", f"{rate:.1f}", str(lost))
        told |= {f"sse_{readers}_cost": round(cost, 3), f"sse_{readers}_lost": lost}
    console.print(table)
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about two minutes instead of eight")
    parser.add_argument("--json-only", action="store_true", help="print nothing but the JSON line")
    options = parser.parse_args()
    plan = QUICK if options.quick else FULL
    console = Console(quiet=options.json_only, highlight=False)
    with (
        tempfile.TemporaryDirectory(prefix="tinyagi-bench-") as folder,
        bare("h11") as plain,
        bare("httptools") as fast,
        ours(Path(folder)) as daemon,
    ):
        told = compare(plan, Servers(daemon, plain, fast), console)
        told["cpu_us_per_request"] = told["cpu_us_per_request_64"]
        told |= readers_cost(plan, daemon, console)
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
