"""Custom providers over HTTP: their keys are neither shown nor sent to another address."""

from collections.abc import Sequence
from typing import Final

import pytest

from tests.server.conftest import Premises

KEY = "sk-local-0123456789abcdef"
LOCAL = {"name": "Local", "harness": "api", "base_url": "http://127.0.0.1:11434/v1", "api_key": KEY, "model": "llama"}
MASKED = {**LOCAL, "api_key": "••••cdef"}


async def test_a_provider_is_added_and_its_key_never_shown(premises: Premises) -> None:
    added = await premises.http.put("/api/custom-providers/local", json=LOCAL)
    listed = await premises.http.get("/api/custom-providers")

    assert added.json() == {"ok": True, "provider": MASKED, "notes": []}
    assert listed.json() == {"local": MASKED}
    assert premises.engine.settings.current.custom_providers["local"].api_key == KEY
    (entry,) = await premises.store.audit.recent()
    assert (entry.action, entry.target, entry.detail) == (
        "save_custom_provider",
        "local",
        "api_key, base_url, harness, model, name",
    )


async def test_a_masked_key_keeps_the_stored_one(premises: Premises) -> None:
    await premises.http.put("/api/custom-providers/local", json=LOCAL)
    answer = await premises.http.put("/api/custom-providers/local", json={**MASKED, "model": None, "wire": "openai"})

    assert answer.status_code == 200
    provider = premises.engine.settings.current.custom_providers["local"]
    assert (provider.api_key, provider.model, provider.name) == (KEY, None, "Local")


ELSEWHERE = "https://elsewhere.example/v1"


async def key_of_local(premises: Premises) -> str | None:
    provider = premises.engine.settings.current.custom_providers["local"]
    assert provider.base_url.startswith(ELSEWHERE)
    return provider.api_key


@pytest.mark.parametrize("sent", [{}, {"api_key": MASKED["api_key"]}, {"api_key": None}])
async def test_a_new_address_drops_the_stored_key(premises: Premises, sent: dict[str, str]) -> None:
    await premises.http.put("/api/custom-providers/local", json=LOCAL)
    answer = await premises.http.put("/api/custom-providers/local", json={"base_url": ELSEWHERE, **sent})

    assert await key_of_local(premises) is None
    assert KEY not in premises.home.settings_file.read_text()
    assert answer.json()["provider"] == {name: LOCAL[name] for name in ("name", "harness", "model")} | {
        "base_url": ELSEWHERE
    }
    (note,) = answer.json()["notes"]
    assert "custom:local" in note
    assert "api_key" in note


@pytest.mark.parametrize("path", ["/api/settings", "/api/setup"])
async def test_a_new_address_in_the_settings_drops_the_stored_key(premises: Premises, path: str) -> None:
    await premises.http.put("/api/custom-providers/local", json=LOCAL)
    patch = {"custom_providers": {"local": {"base_url": ELSEWHERE, "api_key": MASKED["api_key"]}}}
    answer = await premises.http.request("POST" if path == "/api/setup" else "PUT", path, json=patch)

    assert await key_of_local(premises) is None
    assert "custom:local" in answer.json()["notes"][0]


@pytest.mark.parametrize("key", [KEY, "sk-another-0123456789"])
async def test_a_key_sent_with_the_new_address_is_stored(premises: Premises, key: str) -> None:
    await premises.http.put("/api/custom-providers/local", json=LOCAL)
    answer = await premises.http.put("/api/custom-providers/local", json={"base_url": ELSEWHERE, "api_key": key})

    assert await key_of_local(premises) == key
    assert answer.json()["notes"] == []


async def test_a_trailing_slash_is_not_a_new_address(premises: Premises) -> None:
    await premises.http.put("/api/custom-providers/local", json={**LOCAL, "base_url": ELSEWHERE})
    await premises.http.put("/api/custom-providers/local", json={"base_url": f"{ELSEWHERE}/"})

    assert await key_of_local(premises) == KEY


INVALID_PROVIDERS: Final[Sequence[tuple[str, object, str]]] = (
    ("local", {}, "needs harness and base_url"),
    ("local", {**LOCAL, "harness": "none"}, "harness"),
    ("local", {**LOCAL, "base_url": "ftp://x"}, "base_url"),
    ("local", {**LOCAL, "base_url": f"http://me:{KEY}@host/"}, "base_url"),
    ("local", {**LOCAL, "harness": "claude", "wire": "openai"}, "wire"),
    ("local", {**LOCAL, "name": ""}, "name of local is empty"),
    ("local", {**LOCAL, "api_key": 5}, "api_key"),
    ("local", MASKED, "masked value"),
    ("LOCAL", LOCAL, "provider: "),
)


async def test_an_invalid_provider_is_refused(premises: Premises) -> None:
    for provider, body, sentence in INVALID_PROVIDERS:
        answer = await premises.http.put(f"/api/custom-providers/{provider}", json=body)

        assert answer.status_code == 400, (body, answer.text)
        assert sentence in answer.json()["error"]
        assert KEY not in answer.text
    assert (await premises.http.get("/api/custom-providers")).json() == {}


async def test_a_provider_in_use_is_not_deleted(premises: Premises) -> None:
    await premises.http.put("/api/custom-providers/local", json=LOCAL)
    await premises.http.put("/api/agents/coder", json={"provider": "custom:local"})
    refused = await premises.http.delete("/api/custom-providers/local")
    await premises.http.put("/api/agents/coder", json={"provider": "scripted"})
    deleted = await premises.http.delete("/api/custom-providers/local")
    again = await premises.http.delete("/api/custom-providers/local")

    assert (refused.status_code, deleted.status_code, again.status_code) == (409, 200, 404)
    assert "@coder" in refused.json()["error"]
    assert (await premises.http.get("/api/custom-providers")).json() == {}
