"""Restarts of the daemon and its channels over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from tests.server.conftest import FakeDaemon, Premises
from tinyagi.server.app import create_app
from tinyagi.server.dependencies import Services
from tinyagi.server.event_hub import EventHub
from tinyagi.server.metrics import Metrics

PORT = 3777


@dataclass
class FakeChannel:
    running: bool = False
    last_error: str | None = None
    restarts: int = 0
    calls: list[str] = field(default_factory=list)

    async def start(self) -> None:
        self.running = True
        self.calls.append("start")

    async def stop(self) -> None:
        self.running = False
        self.calls.append("stop")


@asynccontextmanager
async def with_channel(premises: Premises, channel: FakeChannel) -> AsyncIterator[httpx.AsyncClient]:
    """The same application, for a daemon with a channel."""
    engine = premises.engine
    services = Services(
        engine=engine,
        home=premises.home,
        hub=EventHub(engine.store, engine.live, engine.background, max_readers=1),
        metrics=Metrics(),
        restart=FakeDaemon().restart,
        port=PORT,
        version="0",
        started_at=0,
        channels={"telegram": channel},
    )
    app = httpx.ASGITransport(create_app(services, engine.settings.current.server, None))
    async with httpx.AsyncClient(transport=app, base_url=f"http://127.0.0.1:{PORT}") as http:
        yield http


async def test_the_error_of_an_earlier_process_is_shown_until_the_channel_is_connected(premises: Premises) -> None:
    report = {"owner": "one", "connected": False, "account": "", "error": None}
    crashed = FakeChannel(running=True, last_error="the network is away", restarts=1)
    async with with_channel(premises, crashed) as http:
        await http.put("/api/channels/telegram/relay", json=report)
        before = (await http.get("/api/status")).json()["channels"]["telegram"]
        await http.put("/api/channels/telegram/relay", json={**report, "connected": True})
        after = (await http.get("/api/status")).json()["channels"]["telegram"]

    assert (before["error"], before["connected"]) == ("the network is away", False)
    assert (after["error"], after["connected"], after["restarts"]) == (None, True, 1)


async def test_a_restart_is_requested_from_the_daemon(premises: Premises) -> None:
    answer = await premises.http.post("/api/services/restart", json={})

    assert answer.json() == {"ok": True, "restarting": True}
    assert premises.daemon.restarts == 1
    (entry,) = await premises.store.audit.recent()
    assert entry.action == "restart_daemon"


async def test_apply_restarts_only_when_a_setting_needs_it(premises: Premises) -> None:
    await premises.http.put("/api/settings", json={"responses": {"suffix": True}})
    nothing = await premises.http.post("/api/services/apply", json={})
    restarts = premises.daemon.restarts
    await premises.http.put("/api/settings", json={"server": {"max_streams": 7}})
    something = await premises.http.post("/api/services/apply", json={})

    assert (nothing.json(), restarts) == ({"ok": True, "restarted": False, "needsRestart": []}, 0)
    assert something.json() == {"ok": True, "restarted": True, "needsRestart": ["server.max_streams"]}
    assert premises.daemon.restarts == 1


async def test_a_channel_is_started_stopped_and_restarted(premises: Premises) -> None:
    channel = FakeChannel()
    async with with_channel(premises, channel) as http:
        answers = [
            (await http.post(f"/api/services/channel/telegram/{verb}", json={})).json()
            for verb in ("start", "stop", "restart")
        ]

    assert answers == [{"ok": True, "channel": "telegram", "running": running} for running in (True, False, True)]
    assert channel.calls == ["start", "stop", "stop", "start"]


async def test_an_unknown_channel_is_not_found(premises: Premises) -> None:
    for verb in ("start", "stop", "restart"):
        answer = await premises.http.post(f"/api/services/channel/telegram/{verb}", json={})

        assert answer.status_code == 404
        assert answer.json()["error"].startswith("There is no channel telegram. There are: none.")
        assert (await premises.http.post(f"/api/services/channel/T!/{verb}", json={})).status_code == 400
    assert (await premises.http.post("/api/services/channel/telegram/explode", json={})).status_code == 404
