"""`tinyagi backup` on the command line, with text and JSON output."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.backup.conftest import add_messages, messages, state
from tests.cli.conftest import Shell
from tests.daemon.test_pidfile import another_process
from tinyagi.pipeline.lake import writer_lock
from tinyagi.settings.home import Home
from tinyagi.store.migrations import load_migrations

NEWEST = load_migrations()[-1][0]


@pytest.fixture
def shell(home: Home) -> Shell:
    return Shell(home)


def archives(home: Home) -> list[str]:
    return sorted(path.name for path in home.backups.glob("*.zip"))


def test_an_empty_list_names_the_create_command(shell: Shell) -> None:
    assert shell("backup", "list").stdout == "There is no backup yet. Make one: tinyagi backup create\n"
    assert shell.json("backup", "list") == []


def test_create_prints_the_path_and_the_missing_parts(shell: Shell) -> None:
    shell.home.lake.mkdir()

    result = shell("backup", "create")

    (name,) = archives(shell.home)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"{shell.home.backups / name}  ")
    assert result.stderr == "Not included: workspaces and lake; add --workspaces --lake.\n"


def test_the_json_of_a_backup_contains_no_secret(shell: Shell) -> None:
    content = shell.json("backup", "create", "--workspaces")

    assert Path(content["path"]).stat().st_size == content["bytes"]
    assert content["holds"] == ["home", "workspaces"]
    assert content["leftOut"] == []
    assert content["files"] > 8
    assert "correct-horse-battery" not in json.dumps(content)


def test_the_list_shows_every_kind_of_backup_newest_first(shell: Shell) -> None:
    name = Path(shell.json("backup", "create")["path"]).name
    backups = shell.home.backups
    (backups / "before-restore-20200101T000000Z").mkdir()
    (backups / "tinyagi-1600000000000.db").write_text("x")
    (backups / "settings-20200101T000000.000000Z.json").write_text("{}")
    (backups / "broken.zip").write_text("x")
    for number, old in enumerate(("broken.zip", "tinyagi-1600000000000.db", "before-restore-20200101T000000Z")):
        os.utime(backups / old, (1_600_000_000 - number, 1_600_000_000 - number))

    listed = shell.json("backup", "list")
    shown = shell("backup", "list").stdout

    assert [(one["name"], one["kind"]) for one in listed] == [
        (name, "backup"),
        ("broken.zip", "backup"),
        ("tinyagi-1600000000000.db", "before-upgrade"),
        ("before-restore-20200101T000000Z", "before-restore"),
    ]
    assert (listed[0]["problem"], listed[0]["holds"], listed[0]["schema"]) == (None, ["home"], NEWEST)
    assert "is not a TinyAGI backup" in listed[1]["problem"]
    assert "damaged, or not a backup" in next(line for line in shown.splitlines() if "broken.zip" in line)
    assert "the database before an upgrade" in shown


def test_a_restore_by_name_can_be_undone(shell: Shell) -> None:
    name = Path(shell.json("backup", "create")["path"]).name
    add_messages(shell.home, "four")

    result = shell("backup", "restore", name, "--yes")

    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"Restored {shell.home.path} from {name} (made ")
    assert messages(shell.home) == ["one", "two", "three"]
    (kept,) = shell.home.backups.glob("before-restore-*")
    assert f"tinyagi --home '{shell.home.path}' backup restore {kept.name}" in result.stderr

    back = shell.json("backup", "restore", kept.name, "--yes")

    assert messages(shell.home) == ["one", "two", "three", "four"]
    assert back["source"] == str(kept)
    assert not shell.home.pid_file.exists()


def test_a_restore_into_a_new_home_needs_no_yes_and_makes_it_private(shell: Shell, tmp_path: Path) -> None:
    path = shell.json("backup", "create")["path"]
    other = Home(tmp_path / "deep" / "other")

    content = shell.json("backup", "restore", path, "--to", str(other.path))

    assert (content["home"], content["kept"]) == (str(other.path), None)
    assert messages(other) == ["one", "two", "three"]
    assert other.is_private
    assert not other.pid_file.exists()


def test_a_home_with_data_needs_yes_without_a_terminal(shell: Shell) -> None:
    name = Path(shell.json("backup", "create")["path"]).name
    before = state(shell.home.path)

    result = shell("backup", "restore", name)

    assert result.exit_code == 2
    assert "There is no terminal for a prompt: add --yes." in result.stderr
    assert state(shell.home.path) == before


def test_a_refused_archive_creates_no_home(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "foreign.zip").write_text("x")

    result = shell("backup", "restore", str(tmp_path / "foreign.zip"), "--to", str(tmp_path / "new"))

    assert result.exit_code == 1
    assert "is not a TinyAGI backup" in result.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["tinyagi-1.db", "folder", "none"])
def test_an_invalid_source_is_refused_with_a_reason(shell: Shell, name: str) -> None:
    (shell.home.backups / "tinyagi-1.db").write_text("x")
    (shell.home.backups / "folder").mkdir()

    result = shell("backup", "restore", name, "--yes")

    assert result.exit_code == 1
    assert {
        "tinyagi-1.db": "copy of the database only",
        "folder": "not a folder from a restore",
        "none": "no backup none",
    }[name] in result.stderr


def test_a_home_in_use_is_not_restored(shell: Shell) -> None:
    name = Path(shell.json("backup", "create")["path"]).name
    with another_process(shell.home):
        before = state(shell.home.path)

        result = shell("backup", "restore", name, "--yes")

        assert result.exit_code == 1
        assert "is already running on" in result.stderr
        assert state(shell.home.path) == before


def test_a_lake_being_written_refuses_the_restore(shell: Shell) -> None:
    shell.home.lake.mkdir()
    name = Path(shell.json("backup", "create")["path"]).name

    with writer_lock(shell.home.lake, "follow"):
        result = shell("backup", "restore", name, "--yes")

    assert result.exit_code == 75
    assert "is being written by `pipeline follow`" in result.stderr
    assert messages(shell.home) == ["one", "two", "three"]


def test_an_interrupted_restore_is_completed_before_the_next_one(shell: Shell) -> None:
    name = Path(shell.json("backup", "create")["path"]).name
    staging = shell.home.path / ".restore.new"
    staging.mkdir()
    fields = {"source": "x.zip", "kept": "kept", "staging": [str(staging)], "moves": None}
    shell.home.restore_journal.write_text(json.dumps(fields))

    result = shell("backup", "restore", name, "--yes")

    assert result.exit_code == 0, result.stderr
    assert "x.zip was interrupted before it changed anything" in result.stderr
    assert not staging.exists()


def test_a_deleted_home_is_restored_from_an_external_archive(shell: Shell, tmp_path: Path) -> None:
    path = shell.json("backup", "create", "--to", str(tmp_path))["path"]
    shutil.rmtree(shell.home.path)

    assert shell("backup", "restore", path).exit_code == 0

    assert messages(shell.home) == ["one", "two", "three"]
