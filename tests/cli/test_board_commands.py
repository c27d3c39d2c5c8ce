"""Tasks and projects of the board on the command line, and the search in the agents' past."""

import pytest

from tests.cli.conftest import Remote, Shell
from tests.server.conftest import Premises
from tests.server.test_recall import archived


async def test_a_task_is_added_moved_commented_and_removed(remote: Remote, premises: Premises) -> None:
    assert "There are no tasks yet." in (await remote("task", "list")).stdout
    added = await remote("task", "add", "Fix the [b]login[/b]", "--assign", "@coder", "-d", "It is slow.")
    assert added.stdout == "Added T-1 to backlog.\n"

    moved = await remote("task", "move", "t-1", "in-progress")

    assert moved.stdout == "T-1 is now in in_progress. It was sent to @coder.\n"
    await premises.drained()
    assert [request.agent for request in premises.puppet.requests] == ["coder"]
    assert (await remote("task", "comment", "T-1", "-", stdin="Two\nlines\n")).stdout == "Commented on T-1.\n"
    shown = (await remote("task", "show", "T-1")).stdout
    listed = (await remote("task", "list", "--status", "in_progress")).stdout
    assert "Fix the [b]login[/b]" in listed
    assert "@coder" in listed
    assert "It is slow." in shown
    assert "ada, " in shown
    assert "Two\nlines" in shown
    assert (await remote("task", "remove", "T-1", "--yes")).stdout == "Removed T-1.\n"
    assert await remote.json("task", "list") == []


async def test_a_task_is_assigned_to_agents_teams_and_none(remote: Remote) -> None:
    task = await remote.json("task", "add", "Ship it")

    for name, kind in (("@coder", "agent"), ("writer", "agent"), ("#dev", "team"), ("@dev", "team")):
        result = await remote("task", "assign", "T-1", name)
        assert result.exit_code == 0, result.stderr
        shown = await remote.json("task", "show", task["id"])
        assert (shown["assignee"], shown["assigneeType"]) == (name.lstrip("@#"), kind)
    assert (await remote("task", "assign", "T-1", "none")).stdout == "T-1 is now assigned to no agent.\n"
    unknown = await remote("task", "assign", "T-1", "nobody")
    assert (unknown.exit_code, "There are: @coder" in unknown.stderr) == (2, True)


async def test_a_task_in_progress_without_an_assignee_gives_a_hint(remote: Remote) -> None:
    result = await remote("task", "add", "Ship it", "--status", "in_progress")

    assert "Assign it: tinyagi task assign T-1 AGENT" in result.stdout


async def test_projects_are_added_named_and_removed(remote: Remote) -> None:
    assert "There are no projects." in (await remote("project", "list")).stdout
    assert "Added project WEB." in (await remote("project", "add", "Website", "--prefix", "web")).stdout
    await remote("task", "add", "Without a project")

    for name in ("WEB", "web", "website"):
        await remote("task", "add", f"For {name}", "--project", name)

    assert [task["identifier"] for task in await remote.json("task", "list", "-p", "WEB")] == [
        "WEB-1",
        "WEB-2",
        "WEB-3",
    ]
    assert "Website" in (await remote("task", "list")).stdout
    assert [one["prefix"] for one in await remote.json("project", "list")] == ["WEB"]
    assert (await remote("project", "remove", "WEB", "--yes")).exit_code == 0
    assert "There are: none." in (await remote("task", "list", "-p", "WEB")).stderr


async def test_a_project_name_used_twice_is_ambiguous(remote: Remote) -> None:
    first = await remote.json("project", "add", "Web site", "--prefix", "WEB")
    second = await remote.json("project", "add", "Web site", "--prefix", "SITE")

    result = await remote("task", "add", "Which one?", "-p", "web site")

    assert result.exit_code == 2
    assert "2 projects are called 'web site'. Name one by its prefix or id: " in result.stderr
    assert all(f"{one['prefix']} ({one['id']})" in result.stderr for one in (first, second))
    assert (await remote("task", "add", "This one", "-p", second["id"])).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("task", "show", "T-9"), "`tinyagi task list` lists them"),
        (("task", "move", "T-9", "later"), "use one of backlog, todo, in_progress, review, done"),
        (("task", "list", "--status", "later"), "use one of backlog"),
        (("task", "add", "x" * 600), "title: "),
        (("recall", ""), "The search text is missing: tinyagi recall "),
    ],
)
async def test_a_wrong_argument_is_a_usage_error(remote: Remote, arguments: tuple[str, ...], sentence: str) -> None:
    result = await remote(*arguments)

    assert result.exit_code == 2
    assert sentence in result.stderr


async def test_recall_searches_one_agent_or_all(remote: Remote, premises: Premises) -> None:
    await archived(premises)

    one = await remote("recall", "invoice", "May", "--agent", "@coder")
    every = await remote.json("recall", "invoice")

    assert "@coder  answered" in one.stdout
    assert "Invoice 4711 paid in May" in one.stdout
    assert "Searched what was archived until" in one.stderr
    assert {agent: len(found["hits"]) for agent, found in every.items()} == {"coder": 1, "writer": 1, "tester": 0}
    assert (await remote("recall", "nothing-like-this", "-a", "coder")).stdout == "Nothing was found.\n"
    unknown = await remote("recall", "soup", "-a", "nobody")
    assert (unknown.exit_code, "There is no agent @nobody. There are: coder, writer" in unknown.stderr) == (2, True)


async def test_recall_without_a_lake_names_the_command_to_run(remote: Remote) -> None:
    result = await remote("recall", "invoice", "--agent", "coder")

    assert result.exit_code == 1
    assert "tinyagi pipeline run" in result.stderr


def test_the_board_needs_the_daemon(shell: Shell) -> None:
    assert shell("task", "list").exit_code == 3


async def test_a_task_already_in_progress_is_not_sent_again(remote: Remote, premises: Premises) -> None:
    await remote("task", "add", "Five", "-s", "in_progress")
    assigned = await remote("task", "assign", "T-1", "@coder")
    again = await remote("task", "move", "T-1", "in_progress")

    assert "it was not sent. To send it: tinyagi task move T-1 todo" in assigned.stderr
    assert again.stdout == "T-1 was already in in_progress; nothing was sent.\n"
    assert await premises.messages() == []
    await remote("task", "move", "T-1", "todo")
    assert (await remote("task", "move", "T-1", "in_progress")).stdout.endswith("It was sent to @coder.\n")
