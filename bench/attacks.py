"""The cost of hostile clients for a daemon: its memory, and the latency of a small request during the attack.

Each attack gets a new daemon, a real process. Meanwhile a client repeats GET /api/status, on a new connection each
time. `--checkout` attacks another checkout, for a comparison. The last line of
stdout is one JSON object.
"""

import argparse
import contextlib
import http.client
import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import psutil
from rich.console import Console
from rich.table import Table

from checkouts import CHECKOUT
from http_servers import Running, daemon

EXAMPLE: Final = """\
example:
  python bench/attacks.py --quick
  python bench/attacks.py --json-only | jq .trailers
  python bench/attacks.py --checkout ../before
"""
MEGABYTE: Final = 1 << 20
TRAILER_BYTES: Final = 50 * MEGABYTE
IDLE: Final = 300
FILES: Final = 256
TEXTS: Final = 120
TEXT: Final = "x" * 1_000_000
TAGS: Final = 70_000
PATIENCE: Final = 30.0
"""Seconds that a client waits for an answer."""
JSON: Final = {"content-type": "application/json"}

Notes = dict[str, float]


@dataclass(frozen=True, slots=True)
class Plan:
    hold_seconds: float
    """How long clients that only hold a connection stay."""
    slow_readers: int


QUICK: Final = Plan(3, 2)
FULL: Final = Plan(15, 4)


@dataclass(frozen=True, slots=True)
class Attack:
    title: str
    run: Callable[[Running, Plan], Notes]
    prepare: Callable[[Running], None] = lambda _: None
    files: int | None = None


@dataclass(slots=True)
class Watch:
    """Measures the daemon's memory and the latency of a small request until it is stopped."""

    server: Running
    rss: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    failed: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        threads = [threading.Thread(target=look) for look in (self._measure, self._ask)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _measure(self) -> None:
        while not self._over.is_set():
            self.rss.append(megabytes(self.server.process))
            self._over.wait(0.01)

    def _ask(self) -> None:
        while not self._over.is_set():
            began = time.perf_counter()
            try:
                status, _ = ask(self.server, "GET", "/api/status")
                self.failed += status != http.client.OK
            except OSError:
                self.failed += 1
            self.latencies.append((time.perf_counter() - began) * 1_000)
            self._over.wait(0.02)


def megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / MEGABYTE


def ask(server: Running, method: str, path: str, body: object = None) -> tuple[int, int]:
    """The status of an answer and its size."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request(method, path, None if body is None else json.dumps(body), {} if body is None else JSON)
        answer = connection.getresponse()
        return answer.status, len(answer.read())


def send_trailers(server: Running, _: Plan) -> Notes:
    """Trailers without end behind an empty chunked body."""
    head = f"POST /api/message HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    head += "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    block = b"a:b\r\n" * 10_240
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as attacker, contextlib.suppress(OSError):
        attacker.sendall(head.encode())
        while sent < TRAILER_BYTES:
            attacker.sendall(block)
            sent += len(block)
    return {"sent_mb": round(sent / MEGABYTE, 1)}


def hold_idle_connections(server: Running, plan: Plan) -> Notes:
    """More idle connections than the daemon may have open files."""
    with contextlib.ExitStack() as stack:
        for _ in range(IDLE):
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
        time.sleep(plan.hold_seconds)
    log = next(Path(part, "logs", "daemon.log") for part in server.process.cmdline() if part.endswith("/home"))
    return {"log_lines": len(log.read_text(encoding="utf-8").splitlines())}


def store_texts(server: Running) -> None:
    for _ in range(TEXTS):
        ask(server, "POST", "/api/responses", {"channel": "telegram", "sender": "Ada", "message": TEXT})


def read_page(server: Running, _: Plan) -> Notes:
    """All of the stored texts in one page."""
    size = ask(server, "GET", "/api/responses?limit=1000")[1]
    return {"answer_mb": round(size / MEGABYTE, 1)}


def read_nothing(server: Running, plan: Plan) -> Notes:
    """The same page, asked for by clients that do not read."""
    call = f"GET /api/responses?limit=1000 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        for _ in range(plan.slow_readers):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 5)).sendall(call)
        time.sleep(plan.hold_seconds)
    return {}


def send_tags(server: Running, _: Plan) -> Notes:
    """An agent's text full of tags, as an answer is read."""
    began = time.perf_counter()
    text = "[send_file:a]" * TAGS
    answer = {"channel": "telegram", "sender": "Ada", "agent": "writer", "message": text}
    status = ask(server, "POST", "/api/responses", answer)[0]
    return {"status": status, "seconds": round(time.perf_counter() - began, 2)}


ATTACKS: Final = {
    "trailers": Attack("50 MB of trailers", send_trailers),
    "idle": Attack(f"{IDLE} idle connections, ulimit -n {FILES}", hold_idle_connections, files=FILES),
    "page": Attack("a page of 120 MB", read_page, store_texts),
    "slow_reader": Attack("the page, not read", read_nothing, store_texts),
    "tags": Attack(f"{TAGS:,} tags in a text", send_tags),
}


def measure(attack: Attack, plan: Plan, checkout: Path) -> Notes:
    with (
        tempfile.TemporaryDirectory(prefix="tinyagi-bench-") as folder,
        daemon(Path(folder), checkout=checkout, files=attack.files) as server,
    ):
        attack.prepare(server)
        watch, before = Watch(server), megabytes(server.process)
        with watch.watching():
            notes = attack.run(server, plan)
        return {
            "rss_before_mb": round(before, 1),
            "rss_peak_mb": round(max(watch.rss), 1),
            "status_p50_ms": round(median(watch.latencies), 1),
            "status_max_ms": round(max(watch.latencies), 1),
            "status_failed": watch.failed,
            **notes,
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="shorter waits, fewer slow readers")
    parser.add_argument("--json-only", action="store_true", help="print the JSON object and nothing else")
    parser.add_argument("--checkout", type=Path, default=CHECKOUT, help="attack the daemon of this checkout")
    parser.add_argument("--only", choices=ATTACKS, help="one attack instead of all")
    chosen = parser.parse_args()
    console = Console(quiet=chosen.json_only)
    table = Table("attack", "RSS before", "RSS peak", "status p50 ms", "max ms", "failed", "notes")
    figures = {}
    for name, attack in ATTACKS.items():
        if chosen.only in {None, name}:
            found = figures[name] = measure(attack, QUICK if chosen.quick else FULL, chosen.checkout.resolve())
            *shown, notes = *list(found.values())[:5], list(found.items())[5:]
            table.add_row(attack.title, *map(str, shown), ", ".join(f"{key} {value}" for key, value in notes))
    console.print(table)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
