"""Import of another board: rows are stored unchanged, once, and never replace existing rows."""

from dataclasses import replace

import pytest

from tinyagi.domain.board import (
    AssigneeType,
    Comment,
    CommentId,
    NewProject,
    NewTask,
    Project,
    ProjectId,
    ProjectStatus,
    Task,
    TaskId,
    TaskStatus,
)
from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.store.store import Store

TODO, IN_PROGRESS, DONE = TaskStatus.TODO, TaskStatus.IN_PROGRESS, TaskStatus.DONE
GARDEN = Project(ProjectId("old_p"), "Garden", "green", "GAR", "#00ff00", ProjectStatus.ARCHIVED, 10, 20)
DIG = Task(TaskId("old_1"), 7, "GAR-7", "Dig", "deep", TODO, "dev", AssigneeType.TEAM, GARDEN.id, 99, 30, 40)
REST = Task(TaskId("old_2"), 3, "T-3", "Rest", "", IN_PROGRESS, None, None, None, 98, 31, 41)
COMMENT = Comment(CommentId("old_c"), DIG.id, "Ada", "user", "soon", 50)


async def test_imported_rows_are_stored_unchanged_and_send_no_message(store: Store) -> None:
    assert await store.board.import_board([GARDEN], [DIG, REST], [COMMENT]) == 4

    assert await store.board.projects() == (GARDEN,)
    assert await store.board.tasks() == (replace(DIG, position=1, comment_count=1), replace(REST, position=1))
    assert await store.board.comments(DIG.id) == (COMMENT,)
    assert (await store.queue.depth()).pending == 0


async def test_numbering_continues_after_the_imported_numbers(store: Store) -> None:
    await store.board.import_board([GARDEN], [DIG, replace(REST, number=1, identifier="T-1")], [])
    await store.board.import_board([], [replace(REST, id=TaskId("x"), number=2, identifier="GAR-2")], [])

    added = [await store.board.add_task(NewTask("t", project_id=project)) for project in (GARDEN.id, None)]

    assert [task.identifier for task in added] == ["GAR-8", "T-2"]


async def test_a_task_without_a_number_gets_the_next_one(store: Store) -> None:
    await store.board.add_task(NewTask("mine"))
    nameless = replace(REST, id=TaskId("x"), number=0, identifier="", status=TODO)
    another = replace(nameless, id=TaskId("y"), project_id=GARDEN.id)

    await store.board.import_board([GARDEN], [nameless, another, DIG, REST], [])

    column = await store.board.tasks(status=TODO)
    assert [(task.identifier, task.number) for task in column] == [("T-4", 4), ("GAR-8", 8), ("GAR-7", 7)]


async def test_imported_tasks_come_after_existing_tasks_in_their_order(store: Store) -> None:
    for title in ("first", "second"):
        await store.board.add_task(NewTask(title, status=TODO))
    rest = replace(REST, status=TODO)

    await store.board.import_board([GARDEN], [rest, DIG], [])

    assert [task.title for task in await store.board.tasks(status=TODO)] == ["first", "second", "Rest", "Dig"]


async def test_existing_rows_are_not_replaced(store: Store) -> None:
    await store.board.import_board([GARDEN], [DIG], [COMMENT])
    moved = await store.board.change_task(DIG.id, {"title": "Dug", "status": DONE})
    await store.board.change_project(GARDEN.id, {"prefix": "PARK"})
    await store.board.add_project(NewProject("Gear", prefix="GAR"))

    again = await store.board.import_board([GARDEN], [DIG, REST, REST], [COMMENT, COMMENT])

    assert again == 1, "only what is new counts"
    assert await store.board.task(DIG.id) == moved
    assert (await store.board.project(GARDEN.id)).prefix == "PARK"
    assert await store.board.comments(DIG.id) == (COMMENT,)
    assert len(await store.board.tasks()) == 2


@pytest.mark.parametrize(
    ("projects", "tasks", "comments", "error", "sentence"),
    [
        ([replace(GARDEN, prefix="web")], [], [], Conflict, "WEB is taken"),
        ([replace(GARDEN, prefix="T")], [], [], Conflict, "T is taken"),
        ([replace(GARDEN, prefix="G-1")], [], [], InvalidInput, "is not a valid prefix"),
        ([], [replace(REST, number=1, identifier="web-1")], [], Conflict, "web-1 is taken"),
        ([], [replace(REST, identifier="T-4")], [], InvalidInput, "T-4 is not the identifier of number 3"),
        ([], [DIG], [], NotFound, "old_p"),
        ([], [], [COMMENT], NotFound, "old_1"),
        ([], [], [replace(COMMENT, author_type="bot")], InvalidInput, "user, agent"),
    ],
)
async def test_an_import_with_a_conflict_stores_nothing(
    store: Store,
    projects: list[Project],
    tasks: list[Task],
    comments: list[Comment],
    error: type[Exception],
    sentence: str,
) -> None:
    web = await store.board.add_project(NewProject("Site", prefix="WEB"))
    mine = await store.board.add_task(NewTask("mine", project_id=web.id))
    fine = replace(GARDEN, id=ProjectId("fine"), prefix="FINE")

    with pytest.raises(error, match=sentence):
        await store.board.import_board([fine, *projects], tasks, comments)

    assert await store.board.projects() == (web,)
    assert await store.board.tasks() == (mine,)
