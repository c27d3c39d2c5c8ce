"""The status of the daemon, in one object."""

from tests.server.conftest import Premises
from tests.support.puppet import Gate
from tinyagi.engine.pipeline_trigger import LAKE


async def test_the_status_has_every_section(premises: Premises) -> None:
    answer = await premises.http.get("/api/status")

    assert answer.status_code == 200
    status = answer.json()
    assert status.keys() == {
        *("ok", "uptime", "version", "server", "channels", "heartbeat", "pipeline"),
        *("engine", "background", "agents", "teams", "needsRestart", "settingsWarnings"),
    }
    assert (status["ok"], status["server"]) == (True, {"running": True, "port": premises.port})
    assert status["uptime"] >= 0
    assert status["version"]
    assert (status["agents"], status["teams"], status["engine"]) == (3, 1, {"runs": 0})
    assert (status["channels"], status["needsRestart"]) == ({}, [])


async def test_the_status_shows_the_background_tasks(premises: Premises) -> None:
    tasks = (await premises.http.get("/api/status")).json()["background"]

    engine = {"settings", "recover", "tidy", "holds", "chats", "schedules", "heartbeat", "dispatch"}
    assert tasks.keys() == engine | {"stream", "stream-live", "stream-beat"}
    assert {(one["state"], one["restarts"], one["lastError"]) for one in tasks.values()} == {("running", 0, None)}
    assert all(one["since"] > 0 for one in tasks.values())


async def test_the_status_counts_running_messages(premises: Premises) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    await premises.send("@coder build it")
    await gate.reached.wait()

    assert (await premises.http.get("/api/status")).json()["engine"] == {"runs": 1}
    gate.open.set()


async def test_a_stopped_channel_shows_up_in_the_status(closed_premises: Premises) -> None:
    closed_premises.settings["channels"] = {"enabled": ["telegram"]}
    async with closed_premises.serve() as premises:
        status = (await premises.http.get("/api/status")).json()

    telegram = status["channels"].pop("telegram")
    assert status["channels"] == {}
    assert (telegram["running"], telegram["enabled"], telegram["connected"]) == (False, True, False)


async def test_settings_that_wait_for_a_restart_are_listed(premises: Premises) -> None:
    await premises.engine.settings.save({"server": {"max_body_bytes": 2_000_000}})

    assert (await premises.http.get("/api/status")).json()["needsRestart"] == ["server.max_body_bytes"]


async def test_heartbeats_run_when_an_agent_has_one(closed_premises: Premises) -> None:
    closed_premises.settings["monitoring"] = {"heartbeat_interval": 1_800}
    async with closed_premises.serve() as premises:
        heartbeat = (await premises.http.get("/api/status")).json()["heartbeat"]

    assert heartbeat == {"running": True, "interval": 1_800, "lastSent": {}}


async def test_heartbeats_are_off_by_default(closed_premises: Premises) -> None:
    del closed_premises.settings["monitoring"]
    async with closed_premises.serve() as premises:
        heartbeat = (await premises.http.get("/api/status")).json()["heartbeat"]
        shown = (await premises.http.get("/api/agents/coder/heartbeat")).json()
        on = (await premises.http.put("/api/agents/coder/heartbeat", json={"enabled": True})).json()

    assert heartbeat == {"running": False, "interval": 3_600, "lastSent": {}}
    assert (shown["enabled"], shown["every"]) == (False, None)
    assert (on["enabled"], on["every"]) == (True, 3_600)


async def test_an_interval_of_zero_switches_heartbeats_off(closed_premises: Premises) -> None:
    closed_premises.settings["monitoring"] = {"heartbeat_interval": 0}
    async with closed_premises.serve() as premises:
        heartbeat = (await premises.http.get("/api/status")).json()["heartbeat"]

    assert heartbeat == {"running": False, "interval": 0, "lastSent": {}}


async def test_a_home_without_a_lake_reports_no_lag(premises: Premises) -> None:
    assert (await premises.http.get("/api/status")).json()["pipeline"] == {
        "enabled": False,
        "lake": False,
        "running": False,
        "lastError": None,
        "lastRunAt": None,
        **dict.fromkeys(("throughId", "headId", "lagEvents", "lagSeconds")),
    }


async def test_a_lake_reports_its_lag(premises: Premises) -> None:
    premises.home.lake.mkdir()
    await premises.store.events.acknowledge(LAKE, 1)
    await premises.send("@coder build it")
    await premises.drained()

    pipeline = (await premises.http.get("/api/status")).json()["pipeline"]

    head = (await premises.store.events.bounds()).head
    assert pipeline.pop("lagSeconds") >= 0
    assert pipeline == {
        "enabled": False,
        "lake": True,
        "running": False,
        "lastError": None,
        "lastRunAt": None,
        "throughId": 1,
        "headId": head,
        "lagEvents": head - 1,
    }
