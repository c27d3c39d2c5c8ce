"""The board: projects with their prefixes, tasks in their columns, and comments."""

import asyncio
from dataclasses import replace

import pytest

from tests.support.clock import FakeClock
from tinyagi.domain.board import (
    AssigneeType,
    CommentId,
    NewProject,
    NewTask,
    ProjectId,
    ProjectStatus,
    Task,
    TaskId,
    TaskStatus,
)
from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.store.store import Store

BACKLOG, TODO, IN_PROGRESS, DONE = TaskStatus.BACKLOG, TaskStatus.TODO, TaskStatus.IN_PROGRESS, TaskStatus.DONE


async def add(store: Store, *titles: str, status: TaskStatus = BACKLOG) -> list[Task]:
    return [await store.board.add_task(NewTask(title, status=status)) for title in titles]


async def titles(store: Store, status: TaskStatus) -> list[str]:
    return [task.title for task in await store.board.tasks(status=status)]


async def test_a_project_comes_back_as_it_was_added(store: Store, clock: FakeClock) -> None:
    added = await store.board.add_project(NewProject("Site", "the web site", "web", "#ff0000"))

    assert added.id.startswith("proj_")
    assert len(added.id) == len("proj_") + 8
    assert (added.prefix, added.status, added.created_at) == ("WEB", ProjectStatus.ACTIVE, clock.now)
    assert await store.board.project(added.id) == added
    assert await store.board.projects() == (added,)


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("Website relaunch", "WEBSI"),
        ("Über uns", "UBERU"),
        ("Go", "GO"),
        ("x", "PROJ"),
        ("2026", "PROJ"),
        ("任务", "PROJ"),
    ],
)
async def test_a_prefix_is_made_from_the_name(store: Store, name: str, prefix: str) -> None:
    assert (await store.board.add_project(NewProject(name))).prefix == prefix


async def test_a_made_prefix_that_is_taken_gets_a_number(store: Store) -> None:
    made = await asyncio.gather(*(store.board.add_project(NewProject("Website")) for _ in range(11)))

    assert [project.prefix for project in made][:3] == ["WEBSI", "WEBS2", "WEBS3"]
    assert made[-1].prefix == "WEB11"


async def test_a_chosen_prefix_belongs_to_one_project(store: Store) -> None:
    web = await store.board.add_project(NewProject("Site", prefix="WEB"))
    app = await store.board.add_project(NewProject("App", prefix="APP"))

    with pytest.raises(Conflict, match="WEB is taken"):
        await store.board.add_project(NewProject("Other", prefix="web"))
    with pytest.raises(Conflict, match="WEB is taken"):
        await store.board.change_project(app.id, {"prefix": "WEB"})
    with pytest.raises(Conflict, match="T is taken"):
        await store.board.add_project(NewProject("Other", prefix="t"))
    assert (await store.board.add_project(NewProject("T"))).prefix == "PROJ"
    assert (await store.board.change_project(web.id, {"prefix": "web"})).prefix == "WEB"


@pytest.mark.parametrize("prefix", ["", "1A", "A-B", "WÄB", "ABCDEFGHIJK"])
async def test_a_prefix_has_letters_and_digits_only(store: Store, prefix: str) -> None:
    with pytest.raises(InvalidInput, match="is not a valid prefix"):
        await store.board.add_project(NewProject("Site", prefix=prefix))


async def test_changing_a_project_changes_only_the_given_fields(store: Store, clock: FakeClock) -> None:
    added = await store.board.add_project(NewProject("Site", "d", "web", "red"))
    clock.now += 5

    assert await store.board.change_project(added.id, {"name": "App"}) == replace(
        added, name="App", updated_at=clock.now
    )
    changed = await store.board.change_project(
        added.id, {"description": "e", "prefix": "app", "color": None, "status": ProjectStatus.ARCHIVED}
    )

    assert (changed.name, changed.description, changed.prefix, changed.color) == ("App", "e", "APP", None)
    assert (changed.created_at, changed.updated_at) == (added.created_at, clock.now)
    assert changed.status is ProjectStatus.ARCHIVED
    assert await store.board.project(added.id) == changed


async def test_an_unknown_id_is_not_found(store: Store) -> None:
    (task,) = await add(store, "x")
    no_project, no_task = ProjectId("proj_0"), TaskId("task_0")

    calls = (
        store.board.project(no_project),
        store.board.change_project(no_project, {"name": "App"}),
        store.board.delete_project(no_project),
        store.board.task(no_task),
        store.board.change_task(no_task, {"title": "y"}),
        store.board.reorder({TODO: [no_task]}),
        store.board.delete_task(no_task),
        store.board.comments(no_task),
        store.board.add_comment(no_task, author="Ada", author_type="user", content="c"),
        store.board.delete_comment(CommentId("cmt_0")),
    )

    for call in calls:
        with pytest.raises(NotFound):
            await call
    assert await store.board.tasks() == (task,)


async def test_a_task_with_an_unknown_project_is_refused(store: Store) -> None:
    (task,) = await add(store, "x")
    unknown = ProjectId("proj_0")

    for call in (
        store.board.add_task(NewTask("y", project_id=unknown)),
        store.board.change_task(task.id, {"project_id": unknown}),
    ):
        with pytest.raises(InvalidInput, match="no project proj_0"):
            await call
    assert await store.board.tasks() == (task,)


async def test_tasks_are_numbered_under_the_prefix_of_their_project(store: Store) -> None:
    web = await store.board.add_project(NewProject("Site", prefix="WEB"))
    app = await store.board.add_project(NewProject("App", prefix="APP"))

    added = [
        await store.board.add_task(NewTask("t", project_id=project)) for project in (None, web.id, web.id, app.id, None)
    ]

    assert [task.identifier for task in added] == ["T-1", "WEB-1", "WEB-2", "APP-1", "T-2"]
    assert [task.number for task in added] == [1, 1, 2, 1, 2]
    assert all(task.id.startswith("task_") and len(task.id) == len("task_") + 8 for task in added)


async def test_a_task_number_is_never_reused(store: Store) -> None:
    web = await store.board.add_project(NewProject("Site", prefix="WEB"))
    last = await store.board.add_task(NewTask("t", project_id=web.id))
    await store.board.delete_task(last.id)
    assert (await store.board.add_task(NewTask("t", project_id=web.id))).identifier == "WEB-2"
    await store.board.delete_project(web.id)

    again = await store.board.add_project(NewProject("Again", prefix="WEB"))

    assert (await store.board.add_task(NewTask("t", project_id=again.id))).identifier == "WEB-3"


async def test_an_identifier_stays_when_the_project_or_its_prefix_changes(store: Store) -> None:
    web = await store.board.add_project(NewProject("Site", prefix="WEB"))
    task = await store.board.add_task(NewTask("t", project_id=web.id))

    await store.board.change_project(web.id, {"prefix": "SITE"})
    moved = await store.board.change_task(task.id, {"project_id": None})

    assert (moved.identifier, moved.number, moved.project_id) == ("WEB-1", 1, None)
    assert (await store.board.add_task(NewTask("t", project_id=web.id))).identifier == "SITE-1"


async def test_a_deleted_project_leaves_its_tasks(store: Store) -> None:
    web = await store.board.add_project(NewProject("Site"))
    task = await store.board.add_task(NewTask("t", project_id=web.id))

    await store.board.delete_project(web.id)

    assert await store.board.tasks() == (replace(task, project_id=None),)
    assert await store.board.projects() == ()


async def test_tasks_are_ordered_by_column(store: Store) -> None:
    web = await store.board.add_project(NewProject("Site"))
    for status in reversed(TaskStatus):
        await store.board.add_task(NewTask(f"{status} 1", status=status, project_id=web.id))
        await store.board.add_task(NewTask(f"{status} 2", status=status))

    assert [task.title for task in await store.board.tasks()] == [
        f"{status} {n}" for status in TaskStatus for n in (1, 2)
    ]
    assert [task.title for task in await store.board.tasks(project=web.id)] == [f"{status} 1" for status in TaskStatus]
    assert [task.title for task in await store.board.tasks(project=web.id, status=DONE)] == ["done 1"]


async def test_changing_a_task_changes_only_the_given_fields(store: Store, clock: FakeClock) -> None:
    (task,) = await add(store, "x")
    web = await store.board.add_project(NewProject("Site"))
    clock.now += 5

    assert await store.board.change_task(task.id, {"title": "y"}) == replace(task, title="y", updated_at=clock.now)
    changed = await store.board.change_task(
        task.id,
        {"description": "d", "assignee": "dev", "assignee_type": AssigneeType.TEAM, "project_id": web.id},
    )

    assert (changed.title, changed.description, changed.assignee, changed.project_id) == ("y", "d", "dev", web.id)
    assert (changed.created_at, changed.updated_at) == (task.created_at, clock.now)
    assert changed.assignee_type is AssigneeType.TEAM
    assert await store.board.task(task.id) == changed


async def test_a_refused_change_changes_nothing(store: Store) -> None:
    task = await store.board.add_task(NewTask("x", assignee="coder", assignee_type=AssigneeType.AGENT))
    seen = []

    def refuse(changed: Task) -> None:
        seen.append((changed.title, changed.assignee, changed.assignee_type))
        raise InvalidInput("no team coder")

    with pytest.raises(InvalidInput, match="no team coder"):
        await store.board.change_task(task.id, {"title": "y", "assignee_type": AssigneeType.TEAM}, check=refuse)

    assert set(seen) == {("y", "coder", AssigneeType.TEAM)}
    assert await store.board.tasks() == (task,)


async def test_a_task_moves_to_the_end_of_another_column(store: Store) -> None:
    (task,) = await add(store, "moves")
    await add(store, "first", "second", status=TODO)

    await store.board.change_task(task.id, {"status": TODO})
    await add(store, "last", status=TODO)

    assert await titles(store, TODO) == ["first", "second", "moves", "last"]


async def test_reordering_moves_tasks_into_columns_in_the_given_order(store: Store, clock: FakeClock) -> None:
    a, b, c = await add(store, "a", "b", "c")
    (d,) = await add(store, "d", status=TODO)
    clock.now += 5

    board = await store.board.reorder({TODO: [c.id, d.id], BACKLOG: [b.id, a.id]})

    assert board == await store.board.tasks()
    assert [(task.status, task.title) for task in board] == [
        (BACKLOG, "b"),
        (BACKLOG, "a"),
        (TODO, "c"),
        (TODO, "d"),
    ]
    changed = {task.title for task in board if task.updated_at == clock.now}
    assert changed == {"c"}, "a place in the same column is no change"


async def test_tasks_missing_from_a_new_order_come_last(store: Store) -> None:
    a, _, c = await add(store, "a", "b", "c")
    (d,) = await add(store, "d", status=TODO)

    await store.board.reorder({BACKLOG: [d.id, c.id]})
    assert await titles(store, BACKLOG) == ["d", "c", "a", "b"]

    await store.board.reorder({DONE: [a.id]})
    assert await titles(store, BACKLOG) == ["d", "c", "b"]


async def test_a_refused_order_changes_nothing(store: Store) -> None:
    a, b = await add(store, "a", "b")

    with pytest.raises(InvalidInput, match="one place"):
        await store.board.reorder({TODO: [a.id], DONE: [a.id]})
    with pytest.raises(NotFound, match="task_0"):
        await store.board.reorder({TODO: [a.id, TaskId("task_0")]})

    assert await store.board.tasks() == (a, b)


async def test_comments_are_listed_oldest_first_and_deleted_with_their_task(store: Store, clock: FakeClock) -> None:
    task, other = await add(store, "x", "y")
    assert await store.board.comments(task.id) == ()
    first = await store.board.add_comment(task.id, author="Ada", author_type="user", content="one")
    second = await store.board.add_comment(task.id, author="coder", author_type="agent", content="two")
    kept = await store.board.add_comment(other.id, author="Ada", author_type="user", content="kept")

    assert first.id.startswith("cmt_")
    assert (first.task_id, first.author, first.author_type, first.content) == (task.id, "Ada", "user", "one")
    assert first.created_at == clock.now
    assert await store.board.comments(task.id) == (first, second)
    await store.board.delete_comment(first.id)
    assert await store.board.comments(task.id) == (second,)
    await store.board.delete_task(task.id)
    with pytest.raises(NotFound):
        await store.board.delete_comment(second.id)
    assert await store.board.comments(other.id) == (kept,)


async def test_a_comment_with_another_author_type_is_refused(store: Store) -> None:
    (task,) = await add(store, "x")

    with pytest.raises(InvalidInput, match="user, agent"):
        await store.board.add_comment(task.id, author="Ada", author_type="bot", content="c")
