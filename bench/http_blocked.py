"""The cost of a blocked backlog for other lanes: POST to one lane while 20,000 messages wait in another.

The first message of a chat fails and is tried again in hours; the others of the same chat wait behind it. The rate is
compared with that of a daemon with the same failed message and nothing behind it. Both are filled through the API.
"""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from http_servers import START_SECONDS, Running, daemon, measure, middle

STUCK: Final = "stuck"
WAITING: Final = 20_000
CONNECTIONS: Final = 4
BACK_OFF_SECONDS: Final = 36_000
SCRIPT: Final = """\
[[reply]]
fail = "the tool crashed"
"""


def blocked_lane(rounds: int, seconds: float, console: Console) -> dict[str, float]:
    """The rate with the backlog over the rate without it, and both rates."""
    with _daemon_with(0) as free, _daemon_with(WAITING) as blocked:
        pairs = [(measure(blocked, CONNECTIONS, seconds), measure(free, CONNECTIONS, seconds)) for _ in range(rounds)]
    ratio = median(with_it.rps / without.rps for with_it, without in pairs)
    with_it, without = middle(pair[0] for pair in pairs), middle(pair[1] for pair in pairs)
    table = Table("blocked", "requests/s", "p50 ms", "p99 ms", "CPU µs", "ratio")
    table.title = f"POST to another lane, {CONNECTIONS} connections"
    for waiting, one in ((0, without), (WAITING, with_it)):
        shown = f"{ratio:.2f}" if waiting else ""
        figures = (f"{one.rps:,.0f}", f"{one.p50_ms:.2f}", f"{one.p99_ms:.2f}", f"{one.cpu_us:.0f}")
        table.add_row(f"{waiting:,}", *figures, shown)
    console.print(table)
    return {
        "blocked_lane_20k": round(ratio, 3),
        "blocked_lane_20k_rps": round(with_it.rps, 1),
        "blocked_lane_none_rps": round(without.rps, 1),
    }


@contextlib.contextmanager
def _daemon_with(waiting: int) -> Iterator[Running]:
    """A daemon with one message in back-off and `waiting` messages of the same chat behind it."""
    with tempfile.TemporaryDirectory(prefix="tinyagi-bench-") as folder:
        workspace = Path(folder, "workspace", STUCK)
        workspace.mkdir(parents=True)
        (workspace / "script.toml").write_text(SCRIPT, encoding="utf-8")
        with daemon(Path(folder), agents=(STUCK,), retry_base_seconds=BACK_OFF_SECONDS) as server:
            server.call("POST", f"/api/queue/agents/{STUCK}/pause")
            server.load("--agent", STUCK, "--chat", "ada", "--count", 1)
            if waiting:
                server.load("--agent", STUCK, "--chat", "ada", "--count", waiting, "--connections", 16)
            server.call("POST", f"/api/queue/agents/{STUCK}/resume")
            _wait_for_failure(server)
            yield server


def _wait_for_failure(server: Running) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.call("GET", "/api/events?type=message_failed&limit=1"):
            return
        time.sleep(0.05)
    raise SystemExit("the message that blocks the lane did not fail")
