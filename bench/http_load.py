"""Clients for the HTTP benchmark, each a process of its own: senders on keep-alive connections, and silent readers."""

import argparse
import asyncio
import json
import os
import selectors
import socket
import sys
import time
from typing import Final

SETTLE: Final = 0.3
"""Seconds at the start that do not count: connections open, caches fill."""


async def send(port: int, name: str, ends: float, counts_from: float, latencies: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = 0
    while (began := time.perf_counter()) < ends:
        letter = {
            "message": f"note {number} of {name} for the bench",
            "agent": "writer",
            "messageId": f"{name}-{number}",
        }
        body = json.dumps(letter).encode()
        number += 1
        head = f"POST /api/message HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"the server answered {answer[:100]!r}")
        at = answer.lower().index(b"content-length:") + 15
        await reader.readexactly(int(answer[at : answer.index(b"\r\n", at)]))
        if began >= counts_from:
            latencies.append(time.perf_counter() - began)
    writer.close()


async def send_all(port: int, connections: int, seconds: float) -> dict[str, float]:
    latencies: list[float] = []
    counts_from = time.perf_counter() + SETTLE
    ends = counts_from + seconds
    prefix = f"{os.getpid()}-{time.time_ns():x}"
    await asyncio.gather(*(send(port, f"{prefix}-{n}", ends, counts_from, latencies) for n in range(connections)))
    latencies.sort()
    return {
        "rps": len(latencies) / seconds,
        "p50_ms": latencies[len(latencies) // 2] * 1000,
        "p99_ms": latencies[int(len(latencies) * 0.99)] * 1000,
    }


def read_all(port: int, readers: int) -> None:
    """Read event streams and throw away what comes, until stdin is closed; then tell how much it was."""
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
    parser.add_argument("--connections", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--readers", type=int, default=0)
    options = parser.parse_args()
    if options.readers:
        read_all(options.port, options.readers)
    else:
        figures = asyncio.run(send_all(options.port, options.connections, options.seconds))
        sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
