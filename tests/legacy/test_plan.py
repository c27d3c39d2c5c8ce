"""The plan for an old home: what it finds and reports, and that it changes nothing."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.legacy.conftest import imported, part, planned, reasons
from tests.support.old_home import contents, make_old_home, write_json
from tinyagi.domain.errors import InvalidInput, StoreError, StoreFailed
from tinyagi.legacy.old_home import OldHome, find_source
from tinyagi.settings.errors import UnreadableSettings
from tinyagi.settings.first_run import ensure_settings
from tinyagi.settings.home import Home


async def test_a_plan_counts_what_is_imported(old: OldHome, home: Home) -> None:
    plan = await planned(old, home)

    counts = {one.name: one.taken for one in plan.parts if one.taken}
    assert counts == {
        "settings": len(part(plan, "settings").names),
        "agents": 3,
        "teams": 1,
        "messages": 5,
        "responses": 3,
        "projects": 2,
        "tasks": 4,
        "comments": 2,
        "schedules": 3,
        "pairings": 2,
        "files": 3,
    }


async def test_a_plan_gives_reasons_for_skipped_things(old: OldHome, home: Home) -> None:
    plan = await planned(old, home)

    assert reasons(plan, "agents").keys() == {"agents.Bad Id", "agents.painter.provider", "agents.painter.model"}
    assert reasons(plan, "teams") == {
        "teams.dev.agents": "there is no agent 'gone'",
        "teams.ghosts": "none of its members is an agent",
    }
    schedules = reasons(plan, "schedules")
    assert schedules["orphan"] == "there is no agent @gone"
    assert "five fields" in schedules["seconds"]
    assert schedules["missed"] == "its time has passed: it is imported disabled"
    assert schedules["standup"] == "its label occurs twice; the first one counts"
    assert reasons(plan, "pairings").keys() == {"telegram 42", "approved, entry 4", "pending, Eve"}
    assert reasons(plan, "tasks") == {
        "Write it down": "its assignee @gone is not known: it is imported without one",
        "Water the plants": "its status 'someday' is not known: it goes to the backlog",
    }


@pytest.mark.parametrize("is_there", [False, True], ids=["new home", "existing home"])
async def test_a_plan_changes_no_byte_in_either_home(old: OldHome, home: Home, is_there: bool) -> None:
    if is_there:
        ensure_settings(home, {}, which=lambda _: None)
    before = contents(old.path), contents(home.path)

    await planned(old, home)

    assert (contents(old.path), contents(home.path)) == before
    assert home.path.exists() == is_there


async def test_an_unclosed_database_is_read_completely_and_unchanged(tmp_path: Path, home: Home) -> None:
    path = make_old_home(tmp_path / "old")
    crashed = _crashed_with_a_row(path / "tasks.db", tmp_path)
    before = contents(path)
    assert crashed.stat().st_size > 0

    plan = await planned(OldHome(path), home)

    assert part(plan, "tasks").taken == 5
    assert contents(path) == before


async def test_a_plan_in_place_changes_no_file(tmp_path: Path) -> None:
    home = Home(make_old_home(tmp_path / "home"))
    before = contents(home.path)

    plan = await planned(OldHome(home.path), home)

    assert plan.in_place
    assert part(plan, "messages").taken == 5
    assert contents(home.path) == before


async def test_a_broken_settings_file_is_named_with_line_and_column(old: OldHome, home: Home) -> None:
    (old.path / "settings.json").write_text('{\n  "agents": {,}\n}')

    with pytest.raises(UnreadableSettings, match="line 2, column 14") as error:
        await planned(old, home)

    assert str(old.path / "settings.json") in str(error.value)
    assert not home.path.exists()


@pytest.mark.parametrize("name", ["schedules.json", "pairing.json"])
async def test_a_broken_file_of_records_is_named_with_line_and_column(old: OldHome, home: Home, name: str) -> None:
    (old.path / name).write_text("[\n  {]")

    with pytest.raises(InvalidInput, match="line 2, column 4"):
        await planned(old, home)

    assert not home.path.exists()


async def test_a_damaged_database_is_named(old: OldHome, home: Home) -> None:
    (old.path / "tasks.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 500)

    with pytest.raises(StoreFailed, match=r"tasks\.db cannot be read"):
        await planned(old, home)


async def test_tasks_and_projects_in_json_files_are_found(tmp_path: Path, home: Home) -> None:
    path = tmp_path / "old"
    path.mkdir()
    write_json(path / "projects.json", [{"id": "proj_1", "name": "Garden", "createdAt": "2026-01-01T00:00:00Z"}])
    write_json(path / "tasks.json", [{"id": "task_1", "title": "Dig", "projectId": "proj_1", "assigneeType": ""}, 5])

    plan = await planned(OldHome(path), home)

    assert [one.name for one in plan.projects] == ["Garden"]
    assert [(one.title, one.project_id, one.number) for one in plan.tasks] == [("Dig", "proj_1", 0)]
    assert reasons(plan, "tasks") == {"tasks, entry 2": "it is not an object"}


async def test_the_older_of_two_tasks_keeps_a_shared_number(tmp_path: Path, home: Home) -> None:
    path = tmp_path / "old"
    path.mkdir()
    younger = {"id": "task_2", "number": 7, "title": "Younger", "sortOrder": 0, "createdAt": 1_767_225_600_002}
    older = {"id": "task_1", "number": 7, "title": "Older", "sortOrder": 1, "createdAt": 1_767_225_600_001}
    write_json(path / "tasks.json", [younger, older])

    plan = await planned(OldHome(path), home)

    assert [(one.title, one.number) for one in plan.tasks] == [("Younger", 0), ("Older", 7)]
    assert reasons(plan, "tasks") == {"Younger": "its number 7 is taken: it gets the next one"}


class TestFindSource:
    def test_a_given_path_is_used(self, tmp_path: Path, old: OldHome, home: Home) -> None:
        assert find_source(home, old.path, {"TINYCLAW_HOME": str(tmp_path)}) == old

    def test_a_missing_folder_is_refused(self, tmp_path: Path, home: Home) -> None:
        with pytest.raises(InvalidInput, match="There is no folder"):
            find_source(home, tmp_path / "nowhere", {})

    @pytest.mark.parametrize("name", ["schedules.json", "pairing.json", "tasks.db", "tinyagi.db"])
    def test_a_home_with_files_of_the_original_is_used(self, tmp_path: Path, old: OldHome, name: str) -> None:
        whole = make_old_home(tmp_path / "whole")
        here = tmp_path / "here"
        here.mkdir()
        (here / name).write_bytes((whole / name).read_bytes())

        assert find_source(Home(here), None, {"TINYCLAW_HOME": str(old.path)}) == OldHome(here)

    @pytest.mark.parametrize(
        "settings",
        [
            {"channels": {"defaults": {"telegram:1": {"agentId": "tinyagi"}}}},
            {"channel_defaults": {"telegram:1": "tinyagi"}},
            {"models": {"provider": "anthropic", "anthropic": {"auth_token": "sk-old"}}},
        ],
    )
    def test_a_home_with_settings_of_the_original_is_used(self, tmp_path: Path, settings: dict[str, object]) -> None:
        here = tmp_path / "here"
        here.mkdir()
        write_json(here / "settings.json", settings)

        assert find_source(Home(here), None, {"TINYCLAW_HOME": str(tmp_path / "none")}) == OldHome(here)

    async def test_the_home_of_tinyclaw_is_used_otherwise(self, old: OldHome, home: Home) -> None:
        ensure_settings(home, {}, which=lambda _: None)

        assert find_source(home, None, {"TINYCLAW_HOME": str(old.path)}) == old

    def test_no_source_is_found_without_an_old_home(self, tmp_path: Path, home: Home) -> None:
        assert find_source(home, None, {"TINYCLAW_HOME": str(tmp_path / "none")}) is None

    async def test_a_home_after_an_import_is_not_an_old_home(self, tmp_path: Path, old: OldHome, home: Home) -> None:
        await imported(old, home)

        assert not OldHome(home.path).is_original()


def _crashed_with_a_row(database: Path, folder: Path) -> Path:
    """Add a task as a killed program does; return the write-ahead log it leaves."""
    living = folder / "living.db"
    living.write_bytes(database.read_bytes())
    with closing(sqlite3.connect(living)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(
            "INSERT INTO tasks (id, number, title, created_at, updated_at) VALUES ('task_9', 9, 'Unsaved', 1, 1)"
        )
        connection.commit()
        log = database.with_name("tasks.db-wal")
        log.write_bytes(living.with_name("living.db-wal").read_bytes())
    return log


@pytest.mark.parametrize("is_in_place", [False, True])
async def test_a_refused_database_leaves_both_homes_unchanged(tmp_path: Path, is_in_place: bool) -> None:
    old = OldHome(make_old_home(tmp_path / "old"))
    home = Home(old.path if is_in_place else tmp_path / "new")
    with closing(sqlite3.connect(old.path / "tinyagi.db")) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("ALTER TABLE responses DROP COLUMN status")
    before = contents(tmp_path)

    with pytest.raises(StoreError, match=rf"{old.path}/tinyagi\.db could.*responses has no column status.*unchanged"):
        await planned(old, home)

    assert contents(tmp_path) == before
