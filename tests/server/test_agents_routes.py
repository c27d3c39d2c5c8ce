"""Agents over HTTP, and the files of their workspaces."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.server.conftest import Premises
from tests.support.puppet import Gate
from tinyagi.agents.workspace_files import LARGEST
from tinyagi.domain.ids import AgentId
from tinyagi.domain.schedules import NewSchedule

SURROGATE = json.dumps({"name": "\ud800", "provider": "scripted", "content": "\ud800", "nested": {"x": "\udfff"}})


def workspace_of(premises: Premises, agent: str) -> Path:
    return premises.folder / "workspace" / agent


async def audited(premises: Premises) -> list[tuple[str, str, str]]:
    return [(entry.action, entry.target, entry.detail) for entry in await premises.store.audit.recent()]


def shown(premises: Premises, agent: str, **fields: object) -> dict[str, object]:
    """The fields with the defaults that an answer adds."""
    return {"model": "", "working_directory": str(workspace_of(premises, agent)), **fields}


async def test_agents_are_listed_with_their_defaults(premises: Premises) -> None:
    answer = await premises.http.get("/api/agents")

    assert answer.status_code == 200
    stored = premises.settings["agents"].items()
    assert answer.json() == {agent: shown(premises, agent, **fields) for agent, fields in stored}


async def test_the_default_agent_is_listed_and_stays_beside_a_new_one(
    closed_premises: Premises,
) -> None:
    del closed_premises.settings["agents"], closed_premises.settings["teams"]
    async with closed_premises.serve() as premises:
        before = (await premises.http.get("/api/agents")).json()
        await premises.http.put("/api/agents/ada", json={"name": "Ada", "provider": "scripted"})
        after = (await premises.http.get("/api/agents")).json()

    assert [agent["name"] for agent in before.values()] == ["TinyAGI"]
    assert list(after) == ["tinyagi", "ada"]


async def test_an_agent_is_added_with_its_workspace_and_works_at_once(premises: Premises) -> None:
    fields = {"name": "Ada", "provider": "scripted", "model": "m", "heartbeat": {"enabled": False}, "mood": "good"}
    answer = await premises.http.put("/api/agents/ada", json=fields)
    await premises.send("hello", agent="ada")
    await premises.drained()

    assert answer.status_code == 200
    assert answer.json() == {"ok": True, "agent": shown(premises, "ada", **fields), "provisioned": True}
    assert (workspace_of(premises, "ada") / "AGENTS.md").is_file()
    assert premises.puppet.prompts_of("ada") == ["hello"]
    assert await audited(premises) == [("save_agent", "ada", "heartbeat, model, mood, name, provider")]


async def test_a_change_is_merged_into_the_agent(premises: Premises) -> None:
    await premises.http.put("/api/agents/coder", json={"model": "opus", "heartbeat": {"interval": 60}})
    answer = await premises.http.put("/api/agents/coder", json={"model": None, "heartbeat": {"enabled": False}})

    assert answer.json() == {
        "ok": True,
        "agent": shown(
            premises, "coder", name="Coder", provider="scripted", heartbeat={"interval": 60, "enabled": False}
        ),
        "provisioned": False,
    }


async def test_a_masked_secret_of_an_agent_keeps_the_stored_value(premises: Premises) -> None:
    answer = await premises.http.put("/api/agents/coder", json={"search_api_key": "sk-1234567890abcdef"})
    shown = answer.json()["agent"]
    listed = (await premises.http.get("/api/agents")).json()["coder"]
    again = await premises.http.put("/api/agents/coder", json={**shown, "model": "m"})

    assert shown["search_api_key"] == listed["search_api_key"] == "••••cdef"
    assert again.status_code == 200
    assert premises.engine.settings.raw["agents"]["coder"]["search_api_key"] == "sk-1234567890abcdef"  # type: ignore[index]
    assert not any("1234567890" in detail for _, _, detail in await audited(premises))


INVALID_AGENTS: Final[Sequence[tuple[str, str, str]]] = (
    ("ada", "{}", "needs name and provider"),
    ("ada", '{"name": "", "provider": "scripted"}', "name of ada is empty"),
    ("coder", '{"name": " "}', "name of coder is empty"),
    ("coder", '{"provider": "nobody"}', "is not a provider"),
    ("coder", '{"provider": "custom:ghost"}', "not in custom_providers"),
    ("coder", '{"name": 5}', "name: "),
    ("coder", '{"timeout_seconds": -1}', "agents.coder.timeout_seconds"),
    ("coder", '{"timeout_seconds": 1e999}', "agents.coder.timeout_seconds"),
    ("coder", '{"hints": NaN}', "number is infinite"),
    ("coder", '{"working_directory": "~nobody-of-this-name/x"}', "cannot be resolved"),
    ("coder", '{"working_directory": "a\\u0000b"}', "NUL character"),
    ("coder", '{"api_key": "••••cdef"}', "masked value"),
    ("dev", '{"name": "Dev", "provider": "scripted"}', "an agent has this id already"),
    ("Ada!", '{"name": "Ada", "provider": "scripted"}', "agent: "),
    ("a" * 65, '{"name": "Ada", "provider": "scripted"}', "agent: "),
    ("coder", SURROGATE, "surrogate"),
    ("coder", '{"nested": "\\ud800"}', "surrogate"),
    ("coder", '{"x": ' * 70 + "1" + "}" * 70, "64 deep"),
    ("coder", "[]", "The body: "),
    ("coder", "{", "The body is not JSON"),
    ("coder", "", "body is missing"),
)


async def test_an_invalid_agent_is_refused_and_changes_nothing(premises: Premises) -> None:
    before = premises.home.settings_file.read_bytes()
    for agent, body, sentence in INVALID_AGENTS:
        answer = await premises.http.put(f"/api/agents/{agent}", content=body)

        assert answer.status_code == 400, (body[:100], answer.text)
        assert sentence in answer.json()["error"]
    assert premises.home.settings_file.read_bytes() == before
    assert await audited(premises) == []


async def test_an_agent_without_a_usable_workspace_is_not_saved(premises: Premises) -> None:
    (premises.folder / "taken").write_text("a file", encoding="utf-8")

    answer = await premises.http.put("/api/agents/coder", json={"working_directory": str(premises.folder / "taken")})

    assert answer.status_code == 409
    assert "The agent was not saved" in answer.json()["error"]
    assert (await premises.http.get("/api/agents")).json()["coder"] == shown(
        premises, "coder", **premises.settings["agents"]["coder"]
    )


async def test_a_deleted_agent_leaves_its_teams(premises: Premises) -> None:
    answer = await premises.http.delete("/api/agents/coder")

    assert answer.status_code == 200
    assert answer.json() == {"ok": True, "messages": 0, "defaultAgent": "writer", "leaders": {"dev": "writer"}}
    assert list((await premises.http.get("/api/agents")).json()) == ["writer", "tester"]
    team = (await premises.http.get("/api/teams")).json()["dev"]
    assert (team["agents"], team["leader_agent"]) == (["writer", "tester"], "writer")
    assert await audited(premises) == [("delete_agent", "coder", "0 messages waited")]
    assert (await premises.http.delete("/api/agents/coder")).status_code == 404


async def test_an_agent_with_waiting_messages_is_deleted_only_on_explicit_instruction(premises: Premises) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    await premises.send("first", agent="coder", sender="Ada")
    await gate.reached.wait()
    await premises.send("second", agent="coder", sender="Grace")

    refused = await premises.http.delete("/api/agents/coder")
    assert refused.status_code == 409
    assert refused.json()["error"].startswith("1 message waits for @coder.")

    moved = await premises.http.delete("/api/agents/coder?messages=move:writer")
    gate.open.set()
    await premises.drained()

    assert moved.json()["messages"] == 1
    assert premises.puppet.prompts_of("writer") == ["second"]
    assert premises.puppet.prompts_of("coder") == ["first"]


async def test_a_deleted_agents_messages_can_become_dead(premises: Premises) -> None:
    await premises.store.lanes.pause(AgentId("coder"))
    await premises.send("never", agent="coder")

    answer = await premises.http.delete("/api/agents/coder?messages=dead")

    assert answer.json()["messages"] == 1
    (dead,) = await premises.store.queue.dead()
    assert (dead.message, dead.last_error) == ("never", "agent @coder was deleted")


INVALID_TARGETS: Final = ("", "drop", "move:", "move:UP", "move:ghost", "move:coder")


async def test_a_deleted_agents_messages_need_a_valid_target(premises: Premises) -> None:
    for target in INVALID_TARGETS:
        answer = await premises.http.delete(f"/api/agents/coder?messages={target}")

        assert answer.status_code == 400, (target, answer.text)
    assert "coder" in (await premises.http.get("/api/agents")).json()


async def test_an_agent_in_use_by_a_team_or_schedule_is_not_deleted(premises: Premises) -> None:
    solo = {"name": "Solo", "agents": ["writer"], "leader_agent": "writer"}
    assert (await premises.http.put("/api/teams/solo", json=solo)).status_code == 200
    await premises.engine.schedules.add(NewSchedule("daily", AgentId("tester"), "report", cron="0 9 * * *"))

    only_member = await premises.http.delete("/api/agents/writer")
    scheduled = await premises.http.delete("/api/agents/tester")

    assert (only_member.status_code, scheduled.status_code) == (409, 409)
    assert "only member of team solo" in only_member.json()["error"]
    assert "daily" in scheduled.json()["error"]


async def test_the_last_agent_is_not_deleted(closed_premises: Premises) -> None:
    closed_premises.settings["agents"] = {"coder": {"provider": "scripted"}}
    closed_premises.settings["teams"] = {}
    async with closed_premises.serve() as premises:
        answer = await premises.http.delete("/api/agents/coder?messages=dead")

    assert answer.status_code == 409
    assert "the last agent" in answer.json()["error"]


async def test_skills_are_listed_with_name_and_description(premises: Premises) -> None:
    await premises.http.put("/api/agents/coder", json={})

    skills = (await premises.http.get("/api/agents/coder/skills")).json()

    assert {skill["id"] for skill in skills} >= {"memory", "schedule", "send-user-message", "tasks", "admin"}
    assert all(skill.keys() == {"id", "name", "description"} and skill["description"] for skill in skills)


async def test_an_agent_has_empty_pages_before_its_first_run(premises: Premises) -> None:
    assert (await premises.http.get("/api/agents/coder/skills")).json() == []
    assert (await premises.http.get("/api/agents/coder/system-prompt")).json()["content"] == ""
    assert (await premises.http.get("/api/agents/coder/heartbeat")).json()["content"] == ""
    memory = (await premises.http.get("/api/agents/coder/memory")).json()
    assert memory == {"index": "", "files": [], "memoryDir": str(workspace_of(premises, "coder") / "memory")}
    assert not workspace_of(premises, "coder").exists()


async def test_a_new_system_prompt_reaches_the_next_run(premises: Premises) -> None:
    answer = await premises.http.put("/api/agents/coder/system-prompt", json={"content": "Only ever say MIAU."})
    await premises.send("hello", agent="coder")
    await premises.drained()

    path = workspace_of(premises, "coder") / "AGENTS.md"
    assert answer.json() == {"ok": True, "content": "Only ever say MIAU.", "path": str(path)}
    assert (await premises.http.get("/api/agents/coder/system-prompt")).json() == {
        "content": "Only ever say MIAU.",
        "path": str(path),
    }
    assert "Only ever say MIAU." in premises.puppet.requests[0].system_prompt
    assert (workspace_of(premises, "coder") / "heartbeat.md").is_file()
    assert await audited(premises) == [("write_system_prompt", "coder", "")]


async def test_a_memory_is_listed_with_its_index(premises: Premises) -> None:
    file = workspace_of(premises, "coder") / "memory" / "people" / "ada.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: Ada\nsummary: likes tea\n---\n", encoding="utf-8")

    memory = (await premises.http.get("/api/agents/coder/memory")).json()

    assert memory == {
        "index": "- people/\n  - **Ada** — likes tea",
        "files": [{"name": "Ada", "path": str(file)}],
        "memoryDir": str(workspace_of(premises, "coder") / "memory"),
    }


async def test_a_heartbeat_has_a_text_and_an_interval(premises: Premises) -> None:
    path = str(workspace_of(premises, "coder") / "heartbeat.md")
    new = {"content": "Look at the mail.", "enabled": True, "interval": 600}

    saved = await premises.http.put("/api/agents/coder/heartbeat", json=new)
    off = await premises.http.put("/api/agents/coder/heartbeat", json={"enabled": False, "interval": None})
    shown = (await premises.http.get("/api/agents/coder/heartbeat")).json()

    assert saved.json() == {"ok": True, **new, "path": path, "every": 600}
    assert off.json() == {"ok": True, "content": "Look at the mail.", "path": path, **shown}
    assert (shown["enabled"], shown["interval"], shown["every"]) == (False, None, None)


async def test_a_heartbeat_without_an_interval_uses_the_global_one(closed_premises: Premises) -> None:
    closed_premises.settings["monitoring"] = {"heartbeat_interval": 3600}
    async with closed_premises.serve() as premises:
        shown = (await premises.http.get("/api/agents/coder/heartbeat")).json()

    assert (shown["enabled"], shown["interval"], shown["every"]) == (True, None, 3600)


INVALID_PAGES: Final[Sequence[tuple[str, str]]] = (
    ("system-prompt", "{}"),
    ("system-prompt", '{"content": null}'),
    ("system-prompt", '{"content": 5}'),
    ("system-prompt", SURROGATE),
    ("system-prompt", json.dumps({"content": "x" * 70_000})),
    ("heartbeat", SURROGATE),
    ("heartbeat", '{"interval": -1}'),
    ("heartbeat", '{"interval": 1e999}'),
    ("heartbeat", f'{{"interval": {10**30}}}'),
    ("heartbeat", '{"enabled": "perhaps"}'),
)


async def test_invalid_page_content_is_refused(premises: Premises) -> None:
    await premises.http.put("/api/agents/coder/system-prompt", json={"content": "as it was"})
    for page, body in INVALID_PAGES:
        answer = await premises.http.put(f"/api/agents/coder/{page}", content=body)

        assert answer.status_code == 400, (body[:100], answer.text)
    assert (await premises.http.get("/api/agents/coder/system-prompt")).json()["content"] == "as it was"


@pytest.mark.parametrize(("page", "name"), [("system-prompt", "AGENTS.md"), ("heartbeat", "heartbeat.md")])
async def test_a_page_linked_outside_the_workspace_is_refused(premises: Premises, page: str, name: str) -> None:
    secret = premises.home.settings_file
    before = secret.read_bytes()
    workspace_of(premises, "coder").mkdir(parents=True)
    (workspace_of(premises, "coder") / name).symlink_to(secret)

    read = await premises.http.get(f"/api/agents/coder/{page}")
    written = await premises.http.put(f"/api/agents/coder/{page}", json={"content": "{}"})

    assert (read.status_code, written.status_code) == (403, 403)
    assert "leads out of the agent's workspace" in read.json()["error"]
    assert secret.read_bytes() == before


@pytest.mark.parametrize(("page", "name"), [("memory", "memory"), ("skills", ".agents/skills")])
async def test_a_folder_linked_outside_the_workspace_is_refused(premises: Premises, page: str, name: str) -> None:
    place = workspace_of(premises, "coder") / name
    place.parent.mkdir(parents=True)
    place.symlink_to(premises.home.path)

    answer = await premises.http.get(f"/api/agents/coder/{page}")

    assert answer.status_code == 403


async def test_an_unreadable_page_is_reported(premises: Premises) -> None:
    (workspace_of(premises, "coder") / "AGENTS.md").mkdir(parents=True)
    large = workspace_of(premises, "coder") / "heartbeat.md"
    large.write_bytes(b"x" * (LARGEST + 1))

    folder = await premises.http.get("/api/agents/coder/system-prompt")
    too_large = await premises.http.get("/api/agents/coder/heartbeat")

    assert (folder.status_code, too_large.status_code) == (409, 409)
    assert "should be a regular file" in folder.json()["error"]


async def test_an_impossible_workspace_path_is_reported(premises: Premises) -> None:
    await premises.http.put("/api/settings", json={"agents": {"coder": {"working_directory": "a\0b"}}})

    for page in ("skills", "memory", "system-prompt", "heartbeat"):
        answer = await premises.http.get(f"/api/agents/coder/{page}")
        assert (answer.status_code, "NUL character" in answer.text) == (400, True)


async def test_a_reset_starts_a_new_session(premises: Premises) -> None:
    answer = await premises.http.post("/api/agents/coder/reset", json={})

    assert answer.json() == {"ok": True}
    event = await premises.until_event("session_reset")
    assert event.agent == "coder"
    assert await audited(premises) == [("reset_agent", "coder", "")]


PAGES: Final[Sequence[tuple[str, str, object]]] = (
    ("GET", "skills", None),
    ("GET", "memory", None),
    ("GET", "system-prompt", None),
    ("PUT", "system-prompt", {"content": "x"}),
    ("GET", "heartbeat", None),
    ("PUT", "heartbeat", {"content": "x"}),
    ("POST", "reset", {}),
)


async def test_an_unknown_agent_is_not_found(premises: Premises) -> None:
    for method, path, body in PAGES:
        answer = await premises.http.request(method, f"/api/agents/ghost/{path}", json=body)

        assert answer.status_code == 404
        assert answer.json() == {"error": "There is no agent @ghost. List the agents to see their names."}
        assert not workspace_of(premises, "ghost").exists()


@pytest.mark.parametrize("name", ["working_directory", "prompt_file"])
async def test_an_agents_paths_cannot_point_into_the_home(premises: Premises, name: str) -> None:
    place = premises.home.path if name == "working_directory" else premises.home.settings_file
    fields = {"name": "Spy", "provider": "scripted", name: str(place)}

    for method, path, body in (
        ("PUT", "/api/agents/spy", fields),
        ("PUT", "/api/settings", {"agents": {"spy": fields}}),
        ("POST", "/api/setup", {"agents": {"spy": fields}}),
    ):
        answer = await premises.http.request(method, path, json=body)
        assert answer.status_code == 400, path
        assert str(place) in answer.json()["error"]
    assert "spy" not in (await premises.http.get("/api/agents")).json()
    assert not (premises.home.path / "AGENTS.md").exists()
