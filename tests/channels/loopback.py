"""An ASGI application on a port of this machine, inside the test's event loop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState


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
