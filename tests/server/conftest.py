"""Premises for tests of the API: a house with its engine, and a real server on a free loopback port."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.engine.conftest import House
from tinyagi.api_wiring import open_api
from tinyagi.server.http import bind

TOKEN = "t0ken-that-nobody-guesses-0123456789"


@dataclass
class FakeDaemon:
    """Replaces the daemon process and counts the restarts it is asked for."""

    restarts: int = 0

    def restart(self) -> None:
        self.restarts += 1


@dataclass
class Premises(House):
    """`settings` and `token` may be changed before `serve`."""

    token: str | None = None
    daemon: FakeDaemon = field(default_factory=FakeDaemon)
    _http: httpx.AsyncClient | None = None

    @property
    def http(self) -> httpx.AsyncClient:
        """A client that sends the token and JSON."""
        assert self._http is not None, "the server is not running"
        return self._http

    @property
    def port(self) -> int:
        port = self.http.base_url.port
        assert port is not None
        return port

    @asynccontextmanager
    async def serve(self) -> AsyncIterator["Premises"]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.open())
            listener = stack.enter_context(bind("127.0.0.1", 0))
            configured = self.engine.settings.current.server
            api = open_api(self.engine, self.home, listener, self.daemon.restart, configured, self.token)
            await stack.enter_async_context(api)
            headers = {"content-type": "application/json"}
            if self.token is not None:
                headers["authorization"] = f"Bearer {self.token}"
            address = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self._http = await stack.enter_async_context(
                httpx.AsyncClient(base_url=address, headers=headers, trust_env=False, timeout=30)
            )
            yield self


@pytest.fixture
def closed_premises(tmp_path: Path) -> Premises:
    """Not serving yet, for tests that change the settings first."""
    return Premises(tmp_path)


@pytest.fixture
async def premises(closed_premises: Premises) -> AsyncIterator[Premises]:
    async with closed_premises.serve() as served:
        yield served
