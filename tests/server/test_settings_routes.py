"""The settings over HTTP: masked, merged, checked."""

import json
from typing import Final

from tests.server.conftest import Premises

KEY = "sk-ant-0123456789abcdef"


async def test_settings_are_shown_as_stored_with_their_secrets_masked(closed_premises: Premises) -> None:
    closed_premises.settings["models"] = {"anthropic": {"api_key": KEY}}
    closed_premises.settings["mine"] = {"own": [1, 2]}
    async with closed_premises.serve() as premises:
        answer = await premises.http.get("/api/settings")

    assert answer.json() == {**premises.settings, "models": {"anthropic": {"api_key": "••••cdef"}}}


async def test_a_patch_is_merged_and_applies_at_once(premises: Premises) -> None:
    answer = await premises.http.put(
        "/api/settings", json={"agents": {"coder": {"model": "opus"}}, "mine": {"a": 1}, "responses": None}
    )

    settings = answer.json()["settings"]
    assert answer.json().keys() == {"ok", "settings", "needsRestart", "warnings", "notes"}
    assert answer.json()["warnings"] == ["mine is not a setting and has no effect."]
    assert settings["agents"]["coder"] == {"name": "Coder", "provider": "scripted", "model": "opus"}
    assert (settings["mine"], "responses" in settings) == ({"a": 1}, False)
    assert answer.json()["needsRestart"] == []
    assert premises.engine.settings.current.agents["coder"].model == "opus"
    assert json.loads(premises.home.settings_file.read_text(encoding="utf-8")) == settings


async def test_a_masked_value_keeps_the_stored_secret(premises: Premises) -> None:
    first = await premises.http.put("/api/settings", json={"models": {"anthropic": {"api_key": KEY}}})
    shown = (await premises.http.get("/api/settings")).json()
    shown["models"]["anthropic"]["model"] = "opus"
    second = await premises.http.put("/api/settings", json=shown)

    assert KEY not in first.text
    assert second.status_code == 200
    assert premises.engine.settings.current.models.anthropic.api_key == KEY
    assert premises.engine.settings.current.models.anthropic.model == "opus"


async def test_the_audit_log_names_changed_keys_without_values(premises: Premises) -> None:
    patch = {"models": {"anthropic": {"api_key": KEY}}, "agents": {"coder": {"name": "Coder", "model": "m"}}}
    await premises.http.put("/api/settings", json=patch)

    (entry,) = await premises.store.audit.recent()
    assert (entry.action, entry.target) == ("save_settings", "")
    assert entry.detail == "models.anthropic, agents.coder.model"


async def test_settings_that_need_a_restart_are_named(premises: Premises) -> None:
    answer = await premises.http.put("/api/settings", json={"server": {"max_streams": 7}})

    assert answer.json()["needsRestart"] == ["server.max_streams"]


INVALID: Final = (
    ('{"queue": {"max_runs": 0}}', "queue.max_runs"),
    (f'{{"queue": {{"max_runs": {10**40}}}}}', "queue.max_runs"),
    (f'{{"x": {"9" * 5000}}}', ""),
    ('{"teams": {"dev": {"leader_agent": "ghost"}}}', "not a member"),
    ('{"models": {"anthropic": {"api_key": "••••cdef"}}}', "masked value"),
    ('{"models": {"openai": {"api_key": 5}}}', "models.openai.api_key"),
    ('{"mine": "\\ud800"}', "surrogate"),
    ('{"\\ud800": 1}', "surrogate"),
    ('{"agents": {"\\ud800": {}}}', ""),
    ('{"mine": NaN}', "infinite"),
    ('{"mine": -1e999}', "infinite"),
    ('{"a": ' * 80 + "1" + "}" * 80, "64 deep"),
    ('{"a": ' * 900 + "1" + "}" * 900, "64 deep"),
    ("[" * 100_000, ""),
    ("[]", "The body"),
    ("null", "body"),
    ("5", "The body"),
    ("", "body is missing"),
    ("{'a': 1}", "not JSON"),
)


async def test_invalid_settings_are_refused_and_change_nothing(premises: Premises) -> None:
    before = premises.home.settings_file.read_bytes()
    for body, sentence in INVALID:
        for method, path in (("PUT", "/api/settings"), ("POST", "/api/setup")):
            answer = await premises.http.request(method, path, content=body)

            assert answer.status_code == 400, (body[:100], answer.text)
            assert sentence in answer.json()["error"]
    assert premises.home.settings_file.read_bytes() == before


async def test_an_error_message_contains_no_secret(premises: Premises) -> None:
    answer = await premises.http.put("/api/settings", json={"server": {"token": f"{KEY} with a blank"}})

    assert answer.status_code == 400
    assert KEY not in answer.text


async def test_a_broken_settings_file_is_not_overwritten(premises: Premises) -> None:
    premises.home.settings_file.write_text('{"agents": ', encoding="utf-8")

    answer = await premises.http.put("/api/settings", json={"mine": 1})

    assert answer.status_code == 400
    assert "line 1" in answer.json()["error"]
    assert premises.home.settings_file.read_text(encoding="utf-8") == '{"agents": '


async def test_setup_adds_settings_and_removes_none(premises: Premises) -> None:
    body = {"agents": None, "models": {"provider": "openai", "openai": None}, "channels": {"enabled": ["telegram"]}}
    answer = await premises.http.post("/api/setup", json=body)

    assert answer.status_code == 200
    assert answer.json()["settings"] == {
        **premises.settings,
        "models": {"provider": "openai"},
        "channels": {"enabled": ["telegram"]},
    }
    (entry,) = await premises.store.audit.recent()
    assert (entry.action, entry.detail) == ("set_up", "models.provider, channels.enabled")


async def test_setup_of_an_empty_home_writes_the_file(closed_premises: Premises) -> None:
    async with closed_premises.serve() as premises:
        premises.home.settings_file.unlink()
        await premises.http.post("/api/setup", json={"monitoring": {"heartbeat_interval": 60}})

        stored = json.loads(premises.home.settings_file.read_text(encoding="utf-8"))
    assert stored == {**premises.settings, "monitoring": {"heartbeat_interval": 60}}
