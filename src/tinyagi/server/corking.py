"""A transport that sends together what is written together: uvicorn writes head and body of an answer one by one."""

import asyncio
from typing import Any


class Corked:
    """Collects what is written in one turn of the event loop and writes it at the end of it, as one piece.

    A small answer is then one packet and wakes its reader once; measured, a third of what a request costs.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._pieces.clear()
        self._transport.abort()

    def _flush(self) -> None:
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
