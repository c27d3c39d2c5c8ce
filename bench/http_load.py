"""Clients for the HTTP benchmark, each a separate process: senders on kept connections, and readers.

A sender has one request under way on each connection and sends the next as soon as the answer is complete. Requests are
built beforehand but for their number, and answers are counted, not parsed, so that the client needs a fraction of the
server's time. Every message has a unique id, as a channel sends it.
"""

import argparse
import itertools
import json
import os
import selectors
import socket
import sys
import time
from collections.abc import Iterator
from typing import Final

import psutil

SETTLE: Final = 0.3
"""Seconds at the start that do not count: connections open, caches fill."""
PATIENCE: Final = 30
"""Seconds without any answer after which the client gives up."""
NUMBER: Final = "%010d"
"""Numbers of fixed width, so that all requests, and all answers, have the same length."""


class Connection:
    """One request under way at a time."""

    __slots__ = ("began", "expected", "head", "missing", "socket")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.expected = 0
        """Bytes of a whole answer, learnt from the first one."""
        self.missing = 0
        self.head = b""
        self.began = 0.0

    def send(self, request: bytes) -> None:
        self.missing = self.expected
        self.began = time.perf_counter()
        if self.socket.send(request) != len(request):
            raise SystemExit("the server does not read")

    def is_answered(self) -> bool:
        """Read what has come; True when it completes the answer."""
        data = self.socket.recv(65536)
        if not data:
            raise SystemExit("the server closed a connection")
        if not self.expected:
            return self._learn(data)
        if self.missing == self.expected and not data.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"the server answered {data[:200]!r}")
        self.missing -= len(data)
        if self.missing < 0:
            raise SystemExit(f"answers differ in length: {data[:200]!r}")
        return not self.missing

    def _learn(self, data: bytes) -> bool:
        self.head += data
        head, end, body = self.head.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"the server answered {self.head[:200]!r}")
        at = head.lower().find(b"content-length:")
        if not end or len(body) < int(head[at + 15 :].split(b"\r\n", 1)[0]):
            return False
        self.expected = len(self.head)
        return True


def answered(port: int, connections: int, request: bytes) -> Iterator[float]:
    """Send without end; yields the seconds of each answer."""
    watch = selectors.DefaultSelector()
    numbers = itertools.count()
    for _ in range(connections):
        one = Connection(port)
        watch.register(one.socket, selectors.EVENT_READ, one)
        number = next(numbers)
        one.send(request % (number, number))
    while True:
        ready = watch.select(PATIENCE)
        if not ready:
            raise SystemExit(f"the server has not answered for {PATIENCE} seconds")
        for key, _ in ready:
            one = key.data
            if one.is_answered():
                yield time.perf_counter() - one.began
                number = next(numbers)
                one.send(request % (number, number))


def send_for(seconds: float, answers: Iterator[float], server: psutil.Process) -> dict[str, float]:
    """The figures of this many seconds after a short start; the server's CPU time covers the same span."""
    deadline = time.perf_counter() + SETTLE
    while time.perf_counter() < deadline:
        next(answers)
    latencies: list[float] = []
    cpu, own, began = cpu_of(server), time.process_time(), time.perf_counter()
    deadline = began + seconds
    while time.perf_counter() < deadline:
        latencies.append(next(answers))
    elapsed = time.perf_counter() - began
    cpu, own = cpu_of(server) - cpu, time.process_time() - own
    latencies.sort()
    return {
        "rps": len(latencies) / elapsed,
        "p50_ms": latencies[len(latencies) // 2] * 1000,
        "p99_ms": latencies[int(len(latencies) * 0.99)] * 1000,
        "cpu_us": cpu / len(latencies) * 1e6,
        "client_cpu": own / elapsed,
    }


def template(port: int, agent: str, chat: str | None) -> bytes:
    """A request with two places for its number. All messages of a chat come from one person on Telegram."""
    run = f"{os.getpid():07d}-{time.time_ns():x}"
    message = {"message": f"note {NUMBER} of {run} for the bench", "agent": agent, "messageId": f"{run}-{NUMBER}"}
    if chat is not None:
        message |= {"channel": "telegram", "sender": chat, "senderId": chat}
    body = json.dumps(message)
    length = len(body) + 2 * (len(NUMBER % 0) - len(NUMBER))
    head = f"POST /api/message HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {length}\r\n\r\n{body}".encode()


def cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def read_all(port: int, readers: int) -> None:
    """Read and discard event streams until stdin is closed; then report the number of bytes."""
    watch = selectors.DefaultSelector()
    for _ in range(readers):
        one = socket.create_connection(("127.0.0.1", port))
        one.sendall(f"GET /api/events/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        if not one.recv(65536).startswith(b"HTTP/1.1 200"):
            raise SystemExit("the server refused a reader")
        watch.register(one, selectors.EVENT_READ, one)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    watch.register(sys.stdin, selectors.EVENT_READ, None)
    received, ended = 0, 0
    while True:
        for key, _ in watch.select():
            if key.data is None:
                sys.stdout.write(json.dumps({"bytes": received, "ended": ended}) + "\n")
                return
            if size := len(key.data.recv(1 << 20)):
                received += size
            else:
                ended += 1
                watch.unregister(key.data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--pid", type=int, help="the server's process, whose CPU time is measured")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--agent", default="writer")
    parser.add_argument("--chat", help="send as this person on Telegram")
    parser.add_argument("--count", type=int, default=0, help="send so many and measure nothing")
    parser.add_argument("--readers", type=int, default=0, help="read so many event streams instead")
    options = parser.parse_args()
    if options.readers:
        read_all(options.port, options.readers)
        return
    answers = answered(options.port, options.connections, template(options.port, options.agent, options.chat))
    if options.count:
        sent = sum(1 for _ in itertools.islice(answers, options.count))
        sys.stdout.write(json.dumps({"sent": sent}) + "\n")
        return
    figures = send_for(options.seconds, answers, psutil.Process(options.pid))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
