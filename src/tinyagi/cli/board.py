"""`tinyagi task` and `tinyagi project`: the tasks and the projects of the board."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.context import call_daemon
from tinyagi.cli.options import Json, Yes, examples
from tinyagi.cli.terminal import (
    WrongCall,
    confirm,
    moment,
    note,
    print_fields,
    print_json,
    print_table,
    read_stdin,
    readable,
    say,
)
from tinyagi.settings.environment import snapshot

if TYPE_CHECKING:
    from tinyagi.api.board import Comment, Project, Task
    from tinyagi.client.client import AsyncClient

task_app = typer.Typer(help="List, add, move and assign tasks of the board.", no_args_is_help=True)

STATUSES: Final = ("backlog", "todo", "in_progress", "review", "done")
UNASSIGNED: Final = "none"
_SEND_AGAIN: Final = "To send it: tinyagi task move {0} todo, then tinyagi task move {0} in_progress"

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="Its identifier, such as T-3, or its id.")]
StatusOption = Annotated[str | None, typer.Option("--status", "-s", help=f"One of {', '.join(STATUSES)}.")]
ProjectOption = Annotated[str | None, typer.Option("--project", "-p", help="Prefix, name or id of a project.")]
Assignee = Annotated[str | None, typer.Option("--assign", "-a", help="An agent (@coder) or a team (#dev).")]

project_app = typer.Typer(help="List, add and remove projects of the board.", no_args_is_help=True)


@task_app.command("list", epilog=examples("tinyagi task list", "tinyagi task list --status in_progress --json"))
def list_tasks(
    ctx: typer.Context, status: StatusOption = None, project: ProjectOption = None, as_json: Json = False
) -> None:
    """List the tasks of the board, column by column."""
    column = None if status is None else _status(status)

    async def look(client: "AsyncClient") -> "tuple[list[Task], list[Project]]":
        wanted = None if project is None else (await find_project(client, project)).id
        return await client.board.tasks(project=wanted, status=column), await client.board.projects()

    tasks, projects = call_daemon(ctx, look)
    if as_json:
        print_json(tasks)
        return
    names = {one.id: one.name for one in projects}
    print_table(
        ("task!", "status!", "assignee!", "?project…", "title…"),
        [(one.identifier, one.status, _assignee(one), names.get(one.project_id or "", ""), one.title) for one in tasks],
        empty=f'There are no {"such tasks" if column or project else "tasks yet"}. Add one: tinyagi task add "Fix it"',
    )


@task_app.command("show", epilog=examples("tinyagi task show T-3"))
def show_task(ctx: typer.Context, task: TaskName, as_json: Json = False) -> None:
    """Show a task with its comments."""

    async def look(client: "AsyncClient") -> "tuple[Task, list[Comment], list[Project]]":
        found = await _find(client, task)
        return found, await client.board.comments(found.id), await client.board.projects()

    found, comments, projects = call_daemon(ctx, look)
    if as_json:
        print_json({**found.model_dump(by_alias=True, mode="json"), "comments": comments})
        return
    print_fields(
        (
            ("task", found.identifier),
            ("title", found.title),
            ("status", found.status),
            ("assignee", _assignee(found)),
            ("project", next((one.name for one in projects if one.id == found.project_id), "")),
            ("created", moment(found.created_at)),
            ("changed", moment(found.updated_at)),
            ("id", found.id),
        )
    )
    if found.description:
        say(f"\n{readable(found.description)}")
    for comment in comments:
        say(f"\n{comment.author}, {moment(comment.created_at)}:\n{readable(comment.content)}")


@task_app.command(
    "add",
    epilog=examples('tinyagi task add "Fix the login" --assign @coder', 'tinyagi task add "Ship 2.0" -p WEB -s todo'),
)
def add_task(
    ctx: typer.Context,
    title: Annotated[str, typer.Argument(help="What to do, in a few words.")],
    description: Annotated[
        str | None, typer.Option("--description", "-d", help="More about it; - reads it from stdin.")
    ] = None,
    assign: Assignee = None,
    status: StatusOption = None,
    project: ProjectOption = None,
    as_json: Json = False,
) -> None:
    """Add a task. A task added as in_progress is sent to its assignee."""
    column = None if status is None else _status(status)
    text = read_stdin() if description == "-" else description

    async def add(client: "AsyncClient") -> "Task":
        from tinyagi.api.board import NewTask

        fields = {"title": title, "description": text, "status": column}
        if assign is not None:
            fields |= await _assigned(client, assign)
        if project is not None:
            fields["projectId"] = (await find_project(client, project)).id
        present = {name: value for name, value in fields.items() if value is not None}
        return await client.board.add_task(NewTask.model_validate(present))

    added = call_daemon(ctx, add)
    if as_json:
        print_json(added)
        return
    say(f"Added {added.identifier} to {added.status}.{_sent(added)}")


@task_app.command("move", epilog=examples("tinyagi task move T-3 in_progress"))
def move_task(
    ctx: typer.Context,
    task: TaskName,
    status: Annotated[str, typer.Argument(help=f"One of {', '.join(STATUSES)}.")],
) -> None:
    """Move a task to another column. A task moved to in_progress is sent to its assignee."""
    column = _status(status)

    async def move(client: "AsyncClient") -> "tuple[Task, Task]":
        return await _find(client, task), await _change(client, task, status=column)

    before, moved = call_daemon(ctx, move)
    if before.status == moved.status:
        say(f"{moved.identifier} was already in {moved.status}; nothing was sent.")
    else:
        say(f"{moved.identifier} is now in {moved.status}.{_sent(moved)}")


@task_app.command("assign", epilog=examples("tinyagi task assign T-3 @coder", f"tinyagi task assign T-3 {UNASSIGNED}"))
def assign_task(
    ctx: typer.Context,
    task: TaskName,
    assignee: Annotated[str, typer.Argument(help=f"An agent (@coder), a team (#dev), or {UNASSIGNED}.")],
) -> None:
    """Assign a task to an agent or a team, or remove its assignee."""

    async def assign(client: "AsyncClient") -> "Task":
        return await _change(client, task, **await _assigned(client, assignee))

    changed = call_daemon(ctx, assign)
    say(f"{changed.identifier} is now assigned to {_assignee(changed) or 'no agent'}.")
    if changed.assignee and changed.status == "in_progress":
        note(f"It was already in progress, so it was not sent. {_SEND_AGAIN.format(changed.identifier)}")


@task_app.command("comment", epilog=examples('tinyagi task comment T-3 "Please test it on the old server, too."'))
def comment_task(
    ctx: typer.Context,
    task: TaskName,
    text: Annotated[str, typer.Argument(help="The comment; - reads it from stdin.")],
    author: Annotated[str | None, typer.Option(help="The author; you by default, or the agent of this run.")] = None,
) -> None:
    """Comment on a task."""
    content = read_stdin() if text == "-" else text

    async def add(client: "AsyncClient") -> "Task":
        from tinyagi.api.board import NewComment

        found = await _find(client, task)
        environment = snapshot()
        agent = environment.get("TINYAGI_AGENT_ID")
        # The API accepts an agent's token only with the agent's name.
        name = author or agent or environment.get("USER") or "owner"
        comment = NewComment(content=content, author=name, author_type="agent" if name == agent else "user")
        await client.board.add_comment(found.id, comment)
        return found

    say(f"Commented on {call_daemon(ctx, add).identifier}.")


@task_app.command("remove", epilog=examples("tinyagi task remove T-3 --yes"))
def remove_task(ctx: typer.Context, task: TaskName, yes: Yes = False) -> None:
    """Remove a task and its comments."""
    confirm(f"Remove the task {task} with its comments?", yes=yes)

    async def remove(client: "AsyncClient") -> "Task":
        found = await _find(client, task)
        await client.board.delete_task(found.id)
        return found

    say(f"Removed {call_daemon(ctx, remove).identifier}.")


async def _find(client: "AsyncClient", name: str) -> "Task":
    for one in await client.board.tasks():
        if name == one.id or name.casefold() == one.identifier.casefold():
            return one
    raise WrongCall(f"There is no task {name!r}. `tinyagi task list` lists them.")


async def _change(client: "AsyncClient", name: str, **changes: object) -> "Task":
    from tinyagi.api.board import TaskChanges

    found = await _find(client, name)
    return await client.board.change_task(found.id, TaskChanges.model_validate(changes))


async def _assigned(client: "AsyncClient", name: str) -> dict[str, str | None]:
    """The fields for an assignee: `#` means a team; `@` or no mark means an agent, else a team."""
    if name == UNASSIGNED:
        return {"assignee": None}
    plain = name.lstrip("@#")
    agents, teams = await client.agents.all(), await client.teams.all()
    if plain in agents and not name.startswith("#"):
        return {"assignee": plain, "assigneeType": "agent"}
    if plain in teams:
        return {"assignee": plain, "assigneeType": "team"}
    known = ", ".join([*(f"@{one}" for one in agents), *(f"#{one}" for one in teams)])
    raise WrongCall(f"There is no agent or team {name!r}. There are: {known}.")


def _status(name: str) -> str:
    status = name.lower().replace("-", "_")
    if status not in STATUSES:
        raise WrongCall(f"{name!r} is not a status; use one of {', '.join(STATUSES)}.")
    return status


def _assignee(task: "Task") -> str:
    mark = "#" if task.assignee_type == "team" else "@"
    return f"{mark}{task.assignee}" if task.assignee else ""


def _sent(task: "Task") -> str:
    if task.status != "in_progress":
        return ""
    if not task.assignee:
        remedy = f"Assign it: tinyagi task assign {task.identifier} AGENT. {_SEND_AGAIN.format(task.identifier)}"
        return f" It has no assignee, so it was not sent. {remedy}"
    return f" It was sent to {_assignee(task)}."


@project_app.command("list", epilog=examples("tinyagi project list", "tinyagi project list --json"))
def list_projects(ctx: typer.Context, as_json: Json = False) -> None:
    """List all projects."""
    projects = call_daemon(ctx, lambda client: client.board.projects())
    if as_json:
        print_json(projects)
        return
    print_table(
        ("prefix!", "name", "status!", "description…"),
        [(one.prefix, one.name, one.status, one.description) for one in projects],
        empty='There are no projects. Add one: tinyagi project add "Website"',
    )


@project_app.command(
    "add", epilog=examples('tinyagi project add "Website"', 'tinyagi project add "Website" --prefix WEB')
)
def add_project(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="What people call it.")],
    prefix: Annotated[
        str | None, typer.Option(help="The prefix of its tasks' identifiers; made from the name by default.")
    ] = None,
    description: Annotated[str | None, typer.Option("--description", "-d", help="What it is about.")] = None,
    as_json: Json = False,
) -> None:
    """Add a project."""

    async def add(client: "AsyncClient") -> "Project":
        from tinyagi.api.board import NewProject

        fields = {"name": name, "prefix": prefix, "description": description}
        present = {key: value for key, value in fields.items() if value is not None}
        return await client.board.add_project(NewProject.model_validate(present))

    added = call_daemon(ctx, add)
    if as_json:
        print_json(added)
        return
    say(f'Added project {added.prefix}. Add a task: tinyagi task add "Its title" --project {added.prefix}')


@project_app.command("remove", epilog=examples("tinyagi project remove WEB --yes"))
def remove_project(
    ctx: typer.Context,
    project: Annotated[str, typer.Argument(help="Its prefix, name or id.")],
    yes: Yes = False,
) -> None:
    """Remove a project; its tasks are kept without a project."""
    confirm(f"Remove the project {project}?", yes=yes)

    async def remove(client: "AsyncClient") -> "Project":
        found = await find_project(client, project)
        await client.board.delete_project(found.id)
        return found

    say(f"Removed project {call_daemon(ctx, remove).prefix}.")


async def find_project(client: "AsyncClient", name: str) -> "Project":
    """The project with this id or prefix, else the only one with this name."""
    projects = await client.board.projects()
    exact = [one for one in projects if name == one.id or name.casefold() == one.prefix.casefold()]
    found = exact or [one for one in projects if name.casefold() == one.name.casefold()]
    if len(found) > 1:
        ids = " or ".join(f"{one.prefix} ({one.id})" for one in found)
        raise WrongCall(f"{len(found)} projects are called {name!r}. Name one by its prefix or id: {ids}.")
    if not found:
        known = ", ".join(one.prefix for one in projects) or "none"
        raise WrongCall(f"There is no project {name!r}. There are: {known}.")
    return found[0]
