"""Requests and answers as clients of the original send and expect them: empty texts for null, and its field names."""

import pytest

from tests.server.conftest import Premises
from tests.server.test_board_routes import project_of, task_of
from tinyagi.api.board import TaskChanges
from tinyagi.client.client import AsyncClient
from tinyagi.settings.patches import agents_of


async def test_empty_assignee_and_project_of_a_new_task_are_stored_as_null(premises: Premises) -> None:
    task = await task_of(premises, assignee="", assigneeType="", projectId="")

    assert (task["assignee"], task["assigneeType"], task["projectId"]) == ("", "", "")
    stored = await premises.store.board.task(task["id"])
    assert (stored.assignee, stored.assignee_type, stored.project_id) == (None, None, None)


async def test_an_empty_text_clears_assignee_and_project(premises: Premises) -> None:
    project = await project_of(premises)
    task = await task_of(premises, assignee="dev", assigneeType="team", projectId=project["id"])

    answer = await premises.http.put(
        f"/api/tasks/{task['id']}", json={**task, "assignee": "", "assigneeType": "", "projectId": ""}
    )

    changed = answer.json()["task"]
    assert (changed["assignee"], changed["assigneeType"], changed["projectId"]) == ("", "", "")


async def test_an_empty_filter_lists_all_tasks(premises: Premises) -> None:
    task = await task_of(premises)

    assert (await premises.http.get("/api/tasks?projectId=&status=")).json() == [task]


async def test_a_task_has_a_sort_order_and_a_comment_count(premises: Premises) -> None:
    first, second = await task_of(premises), await task_of(premises)
    await premises.http.post(f"/api/tasks/{second['id']}/comments", json={"content": "Looks good."})

    tasks = (await premises.http.get("/api/tasks")).json()

    assert [task["sortOrder"] for task in tasks] == [first["position"], second["position"]]
    assert [task["commentCount"] for task in tasks] == [0, 1]
    assert (await premises.http.get(f"/api/tasks/{second['id']}")).json()["commentCount"] == 1


async def test_a_changed_task_keeps_its_comment_count(premises: Premises) -> None:
    task = await task_of(premises)
    await premises.http.post(f"/api/tasks/{task['id']}/comments", json={"content": "Looks good."})

    changed = (await premises.http.put(f"/api/tasks/{task['id']}", json={"title": "Build it well"})).json()["task"]
    moved = (await premises.http.put("/api/tasks/reorder", json={"columns": {"todo": [task["id"]]}})).json()["tasks"]

    assert changed["commentCount"] == 1
    assert [one["commentCount"] for one in moved] == [1]


async def test_in_progress_may_be_written_with_a_hyphen(premises: Premises) -> None:
    added = await task_of(premises, status="in-progress")
    moved = await task_of(premises)
    await premises.http.put(f"/api/tasks/{moved['id']}", json={"status": "in-progress"})
    dragged = await task_of(premises)
    await premises.http.put("/api/tasks/reorder", json={"columns": {"in-progress": [dragged["id"]]}})

    listed = (await premises.http.get("/api/tasks?status=in-progress")).json()

    assert {task["id"] for task in listed} == {added["id"], moved["id"], dragged["id"]}
    assert {task["status"] for task in listed} == {"in_progress"}


async def test_every_project_has_a_colour_and_keeps_it(premises: Premises) -> None:
    plain, red = await project_of(premises, color="", prefix=""), await project_of(premises, color="#ff0000")

    assert plain["color"].startswith("#")
    assert red["color"] == "#ff0000"
    assert (await premises.http.get("/api/projects")).json() == [plain, red]


@pytest.mark.parametrize("nothing", ["cron", "label", "timezone", "channel", "sender"])
async def test_an_empty_field_of_a_new_schedule_is_ignored(premises: Premises, nothing: str) -> None:
    new = {"agentId": "coder", "message": "Good morning", "runAt": "2099-01-31T09:00:00Z", nothing: ""}

    answer = await premises.http.post("/api/schedules", json=new)

    assert answer.status_code == 200, answer.text
    schedule = answer.json()["schedule"]
    assert schedule["cron"] == ""
    assert schedule["label"].startswith("coder-")
    assert (schedule["channel"], schedule["sender"]) == ("schedule", "Scheduler")


async def test_a_recurring_schedule_may_have_an_empty_run_at(premises: Premises) -> None:
    new = {"agentId": "coder", "message": "Good morning", "cron": "0 8 * * *", "runAt": ""}
    schedule = (await premises.http.post("/api/schedules", json=new)).json()["schedule"]

    changed = await premises.http.put(f"/api/schedules/{schedule['id']}", json={**new, "message": "Hello", "label": ""})

    assert changed.status_code == 200, changed.text
    assert (changed.json()["schedule"]["cron"], changed.json()["schedule"]["message"]) == ("0 8 * * *", "Hello")


async def test_last_heartbeats_are_an_empty_object_before_the_first(premises: Premises) -> None:
    assert (await premises.http.get("/api/status")).json()["heartbeat"]["lastSent"] == {}


async def test_the_typed_client_reads_and_sends_back_an_unassigned_task(premises: Premises) -> None:
    task = await task_of(premises)

    async with AsyncClient(str(premises.http.base_url), None) as client:
        read = await client.board.task(task["id"])
        changed = await client.board.change_task(task["id"], TaskChanges(assignee="coder"))
        freed = await client.board.change_task(task["id"], TaskChanges(assignee=read.assignee))

    assert not read.assignee
    assert not read.assignee_type
    assert changed.assignee == "coder"
    assert freed == read.model_copy(update={"updated_at": freed.updated_at})


async def test_skill_search_and_install_explain_how_to_install_skills(premises: Premises) -> None:
    skills = premises.folder / "workspace" / "coder" / ".agents" / "skills"

    found = await premises.http.get("/api/agents/coder/skills/registry?query=pdf")
    installed = await premises.http.post("/api/agents/coder/skills/install", json={"ref": "someone/skills@pdf"})
    unknown = await premises.http.get("/api/agents/ghost/skills/registry?query=pdf")

    assert (found.status_code, installed.status_code, unknown.status_code) == (501, 501, 404)
    assert f"{skills}" in found.json()["error"]
    assert found.json() == installed.json()


async def test_agents_are_listed_with_effective_values(closed_premises: Premises) -> None:
    closed_premises.settings["models"] = {"provider": "openai", "openai": {"model": "gpt-small"}}
    closed_premises.settings["agents"] = {"coder": {}, "writer": {"provider": "scripted", "working_directory": "books"}}
    del closed_premises.settings["teams"]
    workspaces = closed_premises.folder / "workspace"
    async with closed_premises.serve() as premises:
        agents = (await premises.http.get("/api/agents")).json()

    assert agents == {
        "coder": {
            "name": "coder",
            "provider": "openai",
            "model": "gpt-small",
            "working_directory": str(workspaces / "coder"),
        },
        "writer": {
            "name": "writer",
            "provider": "scripted",
            "model": "",
            "working_directory": str(workspaces / "books"),
        },
    }


async def test_a_saved_agent_is_answered_with_effective_values(premises: Premises) -> None:
    answer = await premises.http.put("/api/agents/ada", json={"name": "Ada", "provider": "anthropic"})

    assert answer.json()["agent"] == {
        "name": "Ada",
        "provider": "anthropic",
        "model": "sonnet",
        "working_directory": str(premises.folder / "workspace" / "ada"),
    }


async def test_sending_an_agent_back_stores_no_defaults(premises: Premises) -> None:
    await premises.http.put("/api/agents/coder", json={"name": None, "provider": None, "working_directory": "here"})
    before = premises.engine.settings.raw
    listed = (await premises.http.get("/api/agents")).json()["coder"]

    await premises.http.put("/api/agents/coder", json=listed)
    unchanged = premises.engine.settings.raw
    await premises.http.put("/api/agents/coder", json={**listed, "name": "Ada", "system_prompt": "Be brief."})

    assert unchanged == before
    assert agents_of(premises.engine.settings.raw)["coder"] == {
        "working_directory": "here",
        "name": "Ada",
        "system_prompt": "Be brief.",
    }


async def test_a_default_sent_explicitly_is_stored(premises: Premises) -> None:
    await premises.http.put("/api/agents/coder", json={"provider": "anthropic"})

    await premises.http.put("/api/agents/coder", json={"model": "sonnet"})

    assert agents_of(premises.engine.settings.raw)["coder"]["model"] == "sonnet"


async def test_an_agent_with_an_unresolvable_folder_is_still_listed(closed_premises: Premises) -> None:
    closed_premises.settings["agents"]["coder"] = {"working_directory": "~nobody-of-this-name/x"}
    async with closed_premises.serve() as premises:
        agents = (await premises.http.get("/api/agents")).json()

    assert agents["coder"]["working_directory"] == "~nobody-of-this-name/x"
    assert (agents["coder"]["name"], agents["coder"]["provider"]) == ("coder", "anthropic")
    assert agents["writer"]["working_directory"] == str(premises.folder / "workspace" / "writer")


async def test_teams_are_listed_with_effective_names(closed_premises: Premises) -> None:
    del closed_premises.settings["teams"]["dev"]["name"]
    async with closed_premises.serve() as premises:
        listed = (await premises.http.get("/api/teams")).json()
        saved = (await premises.http.put("/api/teams/dev", json={"chatroom": "passive"})).json()["team"]

    assert listed["dev"]["name"] == saved["name"] == "dev"


async def test_changing_the_custom_provider_of_a_whole_agent_keeps_its_model(
    closed_premises: Premises,
) -> None:
    custom = {"harness": "api", "base_url": "http://127.0.0.1:9", "model": "own"}
    closed_premises.settings["custom_providers"] = {"a": custom, "b": custom}
    closed_premises.settings["agents"]["coder"] |= {"provider": "custom:a", "model": "llama3"}
    async with closed_premises.serve() as premises:
        whole = (await premises.http.get("/api/agents")).json()["coder"]
        saved = await premises.http.put("/api/agents/coder", json={**whole, "provider": "custom:b"})

    assert saved.json()["agent"]["model"] == "llama3"
