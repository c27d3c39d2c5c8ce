"""HTTP by hand, for requests that no library would send."""

import asyncio
import contextlib


async def ask(port: int, request: bytes, *, most: int = 1 << 20) -> bytes:
    """Send these bytes and return the received bytes until the connection ends or an answer is complete."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    # The server may close the connection while the request is being sent; its answer is then lost.
    with contextlib.suppress(ConnectionError):
        writer.write(request)
        while len(answer) < most and not _is_complete(answer) and (piece := await reader.read(65536)):
            answer += piece
    writer.close()
    return answer


def request(port: int, method: str = "GET", path: str = "/api/status", body: bytes = b"", **headers: str) -> bytes:
    """A request with exactly these headers; `content_type` stands for `Content-Type`, and `host` may be replaced."""
    named = {"host": f"127.0.0.1:{port}", **headers}
    if body and "transfer_encoding" not in named:
        named.setdefault("content_length", str(len(body)))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in named.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def status_of(answer: bytes) -> int:
    return int(answer[9:12]) if answer else 0


def _is_complete(answer: bytes) -> bool:
    head, found, body = answer.partition(b"\r\n\r\n")
    if not found:
        return False
    length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), None)
    return length is not None and len(body) >= int(length.partition(b":")[2])
