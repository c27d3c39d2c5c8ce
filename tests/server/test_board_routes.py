"""The board over HTTP: projects, tasks and comments."""

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.server.conftest import Premises
from tinyagi.domain.errors import InvalidInput


async def task_of(premises: Premises, **fields: object) -> dict[str, Any]:
    answer = await premises.http.post("/api/tasks", json={"title": "Build it", **fields})
    assert answer.status_code == 200, answer.text
    task: dict[str, Any] = answer.json()["task"]
    return task


async def project_of(premises: Premises, **fields: object) -> dict[str, Any]:
    answer = await premises.http.post("/api/projects", json={"name": "Website", **fields})
    assert answer.status_code == 200, answer.text
    project: dict[str, Any] = answer.json()["project"]
    return project


async def test_a_task_is_added_and_read(premises: Premises) -> None:
    project = await project_of(premises, prefix="web")
    task = await task_of(premises, description="soon", projectId=project["id"], assignee="coder", colour="unknown")

    assert task.keys() == {
        *("id", "number", "identifier", "title", "description", "status", "assignee", "assigneeType", "projectId"),
        *("position", "sortOrder", "commentCount", "createdAt", "updatedAt"),
    }
    assert (task["number"], task["identifier"], task["status"]) == (1, "WEB-1", "backlog")
    assert (task["assignee"], task["assigneeType"], task["projectId"]) == ("coder", "agent", project["id"])
    assert task["createdAt"] == task["updatedAt"] > 1_600_000_000_000
    assert (await premises.http.get(f"/api/tasks/{task['id']}")).json() == task
    assert (await premises.http.get("/api/tasks")).json() == [task]
    entry, _ = await premises.store.audit.recent()
    assert (entry.action, entry.detail) == ("add_task", "WEB-1")


async def test_a_change_succeeds_when_its_audit_entry_fails(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: str) -> None:
        raise InvalidInput("A text holds half of a character.")

    monkeypatch.setattr(premises.store.audit, "record", refuse)
    await task_of(premises)

    assert len(await premises.store.board.tasks()) == 1
    assert "is not in the audit log: A text holds half of a character." in caplog.text


async def test_tasks_are_listed_by_column_and_project(premises: Premises) -> None:
    project = await project_of(premises)
    plain, todo = await task_of(premises), await task_of(premises, status="todo", projectId=project["id"])

    async def listed(**query: str) -> list[str]:
        return [task["id"] for task in (await premises.http.get("/api/tasks", params=query)).json()]

    assert await listed() == [plain["id"], todo["id"]]
    assert await listed(status="todo") == [todo["id"]]
    assert await listed(projectId=project["id"], status="backlog") == []
    assert (await premises.http.get("/api/tasks?status=lost")).status_code == 400
    assert (await premises.http.get("/api/tasks?projectId=%20")).status_code == 400


async def test_a_task_that_moves_into_progress_is_sent_to_its_assignee_once(premises: Premises) -> None:
    task = await task_of(premises, assignee="dev", assigneeType="team")
    for status in ("in_progress", "in_progress"):
        answer = await premises.http.put(f"/api/tasks/{task['id']}", json={"status": status})
        assert answer.json()["task"]["status"] == "in_progress"
    await premises.drained()

    (prompt,) = premises.puppet.prompts_of("coder")
    assert task["identifier"] in prompt
    assert "Build it" in prompt


async def test_a_change_is_merged_into_the_task_and_null_clears_a_field(premises: Premises) -> None:
    project = await project_of(premises)
    task = await task_of(premises, assignee="coder", projectId=project["id"], description="soon")
    address = f"/api/tasks/{task['id']}"

    renamed = (await premises.http.put(address, json={"title": "Build more", "description": None})).json()["task"]
    freed = (await premises.http.put(address, json={"assignee": None, "projectId": None})).json()["task"]

    assert {**renamed, "updatedAt": 0} == {**task, "title": "Build more", "updatedAt": 0}
    assert (freed["assignee"], freed["assigneeType"], freed["projectId"]) == ("", "", "")
    assert (freed["title"], freed["identifier"]) == ("Build more", task["identifier"])


async def test_tasks_are_reordered_across_columns(premises: Premises) -> None:
    one, two, three = await task_of(premises), await task_of(premises), await task_of(premises, assignee="writer")
    columns = {"backlog": [two["id"], one["id"]], "in_progress": [three["id"]]}

    answer = await premises.http.put("/api/tasks/reorder", json={"columns": columns})
    await premises.drained()

    assert answer.status_code == 200, answer.text
    assert [task["id"] for task in answer.json()["tasks"]] == [two["id"], one["id"], three["id"]]
    assert (await premises.http.get("/api/tasks")).json() == answer.json()["tasks"]
    assert len(premises.puppet.prompts_of("writer")) == 1


INVALID_ORDERS: Final[Sequence[tuple[object, int]]] = (
    ({"lost": []}, 400),
    ({"todo": [" "]}, 400),
    ({"todo": "x"}, 400),
    ({"todo": ["task_00000000"]}, 404),
    (None, 400),
    ([], 400),
)


async def test_an_invalid_order_is_refused(premises: Premises) -> None:
    for columns, status in INVALID_ORDERS:
        answer = await premises.http.put("/api/tasks/reorder", json={"columns": columns})

        assert answer.status_code == status, (columns, answer.text)


async def test_a_task_cannot_be_ordered_into_two_columns(premises: Premises) -> None:
    task = await task_of(premises)
    answer = await premises.http.put(
        "/api/tasks/reorder", json={"columns": {"todo": [task["id"]], "done": [task["id"]]}}
    )

    assert answer.status_code == 400


INVALID_TASKS: Final[Sequence[dict[str, object]]] = (
    {"title": ""},
    {"title": "  "},
    {"title": "x" * 501},
    {"title": "\ud800"},
    {"title": 5},
    {"description": "\ud800"},
    {"description": "x" * 100_001},
    {"status": "lost"},
    {"assignee": "ghost"},
    {"assignee": " "},
    {"assignee": "coder", "assigneeType": "team"},
    {"assigneeType": "robot"},
    {"projectId": "proj_00000000"},
    {"projectId": " "},
)


async def test_an_invalid_task_is_refused(premises: Premises) -> None:
    task = await task_of(premises)
    for wrong in INVALID_TASKS:
        new = await premises.http.post("/api/tasks", content=json.dumps({"title": "x", **wrong}))
        changed = await premises.http.put(f"/api/tasks/{task['id']}", content=json.dumps(wrong))

        assert (new.status_code, changed.status_code) == (400, 400), (wrong, new.text, changed.text)
    assert (await premises.http.get("/api/tasks")).json() == [task]


async def test_comments_are_listed_oldest_first_and_deleted_with_their_task(premises: Premises) -> None:
    task = await task_of(premises)
    address = f"/api/tasks/{task['id']}/comments"

    first = (await premises.http.post(address, json={"content": "one"})).json()["comment"]
    fields = {"content": "two", "author": "coder", "authorType": "agent"}
    second = (await premises.http.post(address, json=fields)).json()["comment"]

    assert first.keys() == {"id", "taskId", "author", "authorType", "content", "createdAt"}
    assert (first["author"], first["authorType"], second["authorType"]) == ("API", "user", "agent")
    assert (await premises.http.get(address)).json() == [first, second]
    assert (await premises.http.delete(f"/api/comments/{first['id']}")).json() == {"ok": True}
    assert (await premises.http.delete(f"/api/comments/{first['id']}")).status_code == 404
    assert (await premises.http.get(address)).json() == [second]
    await premises.http.delete(f"/api/tasks/{task['id']}")
    assert (await premises.http.get(address)).status_code == 404


INVALID_COMMENTS: Final[Sequence[object]] = (
    {},
    {"content": ""},
    {"content": " "},
    {"content": "\ud800"},
    {"content": "x", "author": " "},
    {"content": "x", "authorType": "robot"},
)


async def test_an_invalid_comment_is_refused(premises: Premises) -> None:
    task = await task_of(premises)
    for body in INVALID_COMMENTS:
        answer = await premises.http.post(f"/api/tasks/{task['id']}/comments", content=json.dumps(body))

        assert answer.status_code == 400, (body, answer.text)


async def test_a_project_is_added_read_changed_and_deleted(premises: Premises) -> None:
    project = await project_of(premises, description="ours", color="#ff8800")
    task = await task_of(premises, projectId=project["id"])
    address = f"/api/projects/{project['id']}"

    assert project.keys() == {"id", "name", "description", "prefix", "color", "status", "createdAt", "updatedAt"}
    assert (await premises.http.get(address)).json() == project
    changed = (await premises.http.put(address, json={"status": "archived", "color": None})).json()["project"]
    assert {**changed, "updatedAt": 0} == {**project, "status": "archived", "color": changed["color"], "updatedAt": 0}
    assert changed["color"] not in {None, "", project["color"]}
    assert (await premises.http.get("/api/projects")).json() == [changed]
    assert (await premises.http.delete(address)).json() == {"ok": True}
    assert (await premises.http.get(address)).status_code == 404
    assert (await premises.http.get(f"/api/tasks/{task['id']}")).json()["projectId"] == ""


async def test_no_two_projects_share_a_prefix(premises: Premises) -> None:
    await project_of(premises, prefix="WEB")
    other = await project_of(premises, prefix="OPS")

    new = await premises.http.post("/api/projects", json={"name": "x", "prefix": "web"})
    changed = await premises.http.put(f"/api/projects/{other['id']}", json={"prefix": "web"})

    assert (new.status_code, changed.status_code) == (409, 409)


INVALID_PROJECTS: Final[Sequence[dict[str, object]]] = (
    {"name": ""},
    {"name": " "},
    {"name": "\ud800"},
    {"description": "\ud800"},
    {"prefix": " "},
    {"prefix": "1A"},
    {"prefix": "A-B"},
    {"prefix": "TOOLONGPREFIX"},
    {"color": "url(x);"},
    {"status": "lost"},
)


async def test_an_invalid_project_is_refused(premises: Premises) -> None:
    project = await project_of(premises)
    for wrong in INVALID_PROJECTS:
        new = await premises.http.post("/api/projects", content=json.dumps({"name": "x", **wrong}))
        changed = await premises.http.put(f"/api/projects/{project['id']}", content=json.dumps(wrong))

        assert (new.status_code, changed.status_code) == (400, 400), (wrong, new.text, changed.text)
    assert (await premises.http.get("/api/projects")).json() == [project]


MISSING: Final[Sequence[tuple[str, str]]] = (
    ("GET", "tasks/task_0"),
    ("PUT", "tasks/task_0"),
    ("DELETE", "tasks/task_0"),
    ("GET", "tasks/task_0/comments"),
    ("POST", "tasks/task_0/comments"),
    ("DELETE", "comments/cmt_0"),
    ("GET", "projects/proj_0"),
    ("PUT", "projects/proj_0"),
    ("DELETE", "projects/proj_0"),
)


async def test_unknown_tasks_comments_and_projects_are_not_found(premises: Premises) -> None:
    for method, path in MISSING:
        body = {"content": "x"} if method in {"PUT", "POST"} else None

        answer = await premises.http.request(method, f"/api/{path}", json=body)

        assert answer.status_code == 404, answer.text
        assert path.split("/")[1] in answer.json()["error"]
        assert (await premises.http.request(method, f"/api/{path.replace('_0', '%20')}", json=body)).status_code == 400
