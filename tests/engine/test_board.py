"""The board: invalid tasks are refused, and a task that moves into progress is sent to its assignee."""

from collections.abc import AsyncIterator

import pytest

from tests.engine.conftest import House
from tinyagi.domain.board import AssigneeType, NewProject, NewTask, ProjectId, TaskId, TaskStatus
from tinyagi.domain.errors import InvalidInput, NotFound
from tinyagi.engine.board import TaskBoard

TODO, IN_PROGRESS, REVIEW = TaskStatus.TODO, TaskStatus.IN_PROGRESS, TaskStatus.REVIEW


@pytest.fixture
async def board(house: House) -> AsyncIterator[TaskBoard]:
    async with house.open(start=False):
        yield house.engine.board


async def test_a_task_that_moves_into_progress_is_sent_to_its_assignee(board: TaskBoard, house: House) -> None:
    task = await board.add_task(NewTask("Check the links", "Every page below docs/.", TODO, "writer"))
    assert task.assignee_type is AssigneeType.AGENT
    assert await house.messages() == []

    moved = await board.change_task(task.id, status=IN_PROGRESS)
    (message,) = await house.messages()
    (routed,) = await house.events("agent_routed")

    assert moved.status is IN_PROGRESS
    assert (message.agent, message.team) == ("writer", None)
    assert (message.channel, message.sender, message.sender_id) == ("board", "Board", task.id)
    assert message.message.startswith(f"Task {task.identifier}: Check the links\n\nEvery page below docs/.\n\n")
    assert f"comment on task {task.id}" in message.message
    assert routed.payload["agent_name"] == "Writer"


async def test_a_task_of_a_team_goes_to_its_leader_with_the_team(board: TaskBoard, house: House) -> None:
    task = await board.add_task(NewTask("Build it", assignee="dev", assignee_type=AssigneeType.TEAM))
    await board.change_task(task.id, status=IN_PROGRESS)
    (message,) = await house.messages()

    assert (message.agent, message.team) == ("coder", "dev")
    assert await house.events("team_chain_start")


async def test_a_task_added_in_progress_is_sent_with_its_identifier(board: TaskBoard, house: House) -> None:
    task = await board.add_task(NewTask("Build it", status=IN_PROGRESS, assignee="coder"))
    (message,) = await house.messages()

    assert task.status is IN_PROGRESS
    assert task.identifier in message.message
    assert message.sender_id == task.id


async def test_a_task_is_sent_when_it_moves_and_not_when_it_is_edited(board: TaskBoard, house: House) -> None:
    task = await board.add_task(NewTask("Build it", status=IN_PROGRESS, assignee="coder"))
    await board.change_task(task.id, title="Build it well", status=IN_PROGRESS)
    await board.reorder({IN_PROGRESS: [task.id]})
    assert len(await house.messages()) == 1

    await board.change_task(task.id, status=REVIEW)
    await board.change_task(task.id, status=IN_PROGRESS)
    assert len(await house.messages()) == 2


async def test_a_task_without_an_assignee_sends_nothing(board: TaskBoard, house: House) -> None:
    task = await board.add_task(NewTask("Think"))
    await board.change_task(task.id, status=IN_PROGRESS)
    await board.add_task(NewTask("Think more", status=IN_PROGRESS))
    assert await house.messages() == []


async def test_reordering_sends_only_tasks_that_move_into_progress(board: TaskBoard, house: House) -> None:
    old = await board.add_task(NewTask("Old", status=IN_PROGRESS, assignee="coder"))
    new = await board.add_task(NewTask("New", assignee="tester"))
    unassigned = await board.add_task(NewTask("Nobody's"))
    tasks = await board.reorder({IN_PROGRESS: [new.id, unassigned.id, old.id], TODO: []})

    assert [task.title for task in tasks] == ["New", "Nobody's", "Old"]
    assert [message.agent for message in await house.messages()] == ["coder", "tester"]


async def test_each_task_runs_alone(board: TaskBoard, house: House) -> None:
    for title in ("One", "Two"):
        await board.add_task(NewTask(title, status=IN_PROGRESS, assignee="coder"))
    await house.engine.start()
    await house.drained()

    assert [prompt.splitlines()[0] for prompt in house.puppet.prompts_of("coder")] == [
        "Task T-1: One",
        "Task T-2: Two",
    ]


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        (NewTask(" "), "needs a title"),
        (NewTask("x\ud800"), "half of a character"),
        (NewTask("x", assignee="ghost"), "no agent 'ghost' to assign it to. There are: coder, writer, tester"),
        (NewTask("x", assignee="dev"), "no agent 'dev'"),
        (NewTask("x", assignee="coder", assignee_type=AssigneeType.TEAM), "no team 'coder' .*There are: dev"),
        (NewTask("x", project_id=ProjectId("proj_none")), "no project proj_none"),
    ],
)
async def test_an_invalid_task_is_refused(board: TaskBoard, house: House, new: NewTask, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        await board.add_task(new)
    assert await house.store.board.tasks() == ()


async def test_a_refused_change_changes_nothing(board: TaskBoard, house: House) -> None:
    task = await board.add_task(NewTask("Build it", assignee="coder"))
    with pytest.raises(InvalidInput, match="needs a title"):
        await board.change_task(task.id, title="", status=IN_PROGRESS)
    with pytest.raises(InvalidInput, match="no agent 'ghost'"):
        await board.change_task(task.id, assignee="ghost")
    with pytest.raises(InvalidInput, match="no project"):
        await board.change_task(task.id, project_id=ProjectId("proj_none"))
    with pytest.raises(NotFound):
        await board.change_task(TaskId("task_none"), title="x")
    with pytest.raises(NotFound):
        await board.reorder({IN_PROGRESS: [task.id, TaskId("task_none")]})

    assert await house.store.board.tasks() == (task,)
    assert await house.messages() == []


async def test_an_assignee_without_a_type_is_an_agent(board: TaskBoard) -> None:
    task = await board.add_task(NewTask("Build it", assignee="dev", assignee_type=AssigneeType.TEAM))
    given = await board.change_task(task.id, assignee="coder")
    assert (given.assignee, given.assignee_type) == ("coder", AssigneeType.AGENT)
    taken = await board.change_task(task.id, assignee=None)
    assert (taken.assignee, taken.assignee_type) == (None, None)


async def test_a_deleted_assignee_is_reported_only_when_the_task_starts(house: House) -> None:
    async with house.open(start=False):
        task = await house.engine.board.add_task(NewTask("Build it", assignee="tester"))
        begun = await house.engine.board.add_task(NewTask("Begun", status=IN_PROGRESS, assignee="tester"))
    del house.settings["agents"]["tester"]
    house.settings["teams"] = {}
    async with house.open(start=False):
        board = house.engine.board
        assert (await board.change_task(task.id, title="Build it well")).title == "Build it well"
        for start in (board.change_task(task.id, status=IN_PROGRESS), board.reorder({IN_PROGRESS: [task.id]})):
            with pytest.raises(InvalidInput, match="no agent 'tester'"):
                await start
        assert (await house.store.board.task(task.id)).status is TaskStatus.BACKLOG
        await board.reorder({IN_PROGRESS: [begun.id]})
        assert (await board.change_task(begun.id, description="More of it")).status is IN_PROGRESS


async def test_projects_and_comments_need_their_texts(board: TaskBoard) -> None:
    project = await board.add_project(NewProject("Web site", prefix="WEB"))
    task = await board.add_task(NewTask("Build it", project_id=project.id))
    assert task.identifier == "WEB-1"
    with pytest.raises(InvalidInput, match="needs a name"):
        await board.add_project(NewProject(" "))
    with pytest.raises(InvalidInput, match="needs a name"):
        await board.change_project(project.id, name="")
    with pytest.raises(InvalidInput, match="needs a text"):
        await board.add_comment(task.id, author="coder", author_type="agent", content=" ")
    with pytest.raises(InvalidInput, match="needs an author"):
        await board.add_comment(task.id, author="", author_type="agent", content="done")

    assert (await board.change_project(project.id, name="Site")).prefix == "WEB"
    assert (await board.add_comment(task.id, author="coder", author_type="agent", content="done")).content == "done"
