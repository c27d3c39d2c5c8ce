"""An ASGI application on a port of this machine, inside the test's event loop."""

import asyncio
import contextlib
import random
import socket
from collections.abc import AsyncIterator

from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState


def free_port() -> int:
    """A port that is free now, outside the range from which the system takes ports for connections."""
    while True:
        port = random.randrange(12_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, port: int) -> AsyncIterator[None]:
    """Serve the application inside the block."""
    config = Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: HttpToolsProtocol(config=config, server_state=state, app_state={}), "127.0.0.1", port
    )
    try:
        yield
    finally:
        server.close()
        for connection in list(state.connections):
            connection.shutdown()
        if state.tasks:
            await asyncio.wait(state.tasks, timeout=5)
