"""A restored home equals the home of the backup, and the replaced data can be restored."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.backup.conftest import FILES, NOW, add_messages, create_backup, destroy, messages, state, without_database
from tinyagi.backup.manifest import BackupError
from tinyagi.backup.restore import restore
from tinyagi.pipeline.errors import LakeBusy
from tinyagi.pipeline.lake import writer_lock
from tinyagi.pipeline.manifest import LakeManifest, Pin, write_manifest
from tinyagi.settings.home import Home

BEFORE = ["one", "two", "three"]
KEPT = "before-restore-20261118T031500Z"


def files_of(home: Home) -> dict[str, str]:
    """The home without its database and its backups."""
    return {name: content for name, content in without_database(home.path).items() if not name.startswith("backups")}


def write_lake(home: Home, *, through: int) -> None:
    (home.lake / "bronze").mkdir(parents=True, exist_ok=True)
    (home.lake / "bronze" / "part.parquet").write_text(f"up to {through}")
    write_manifest(home.lake / "manifest.json", LakeManifest(1, through, 0, {"bronze.events": Pin(1, through)}))


def test_another_home_gets_every_row_and_file(home: Home, tmp_path: Path) -> None:
    done = create_backup(home)
    other = Home(tmp_path / "other")
    other.path.mkdir()

    restored = restore(done.path, other, now=NOW)

    assert messages(other) == BEFORE
    assert files_of(other) == {name: content for name, content in files_of(home).items() if name != "logs"}
    assert restored.kept is None
    with closing(sqlite3.connect(home.database)) as one, closing(sqlite3.connect(other.database)) as two:
        dumps = [list(database.iterdump()) for database in (one, two)]
    assert dumps[0] == dumps[1]


def test_a_destroyed_home_is_restored(home: Home) -> None:
    before = files_of(home)
    done = create_backup(home)
    destroy(home)

    restore(done.path, home, now=NOW)

    assert messages(home) == BEFORE
    assert files_of(home) == before


def test_replaced_data_is_kept_and_can_be_restored(home: Home) -> None:
    done = create_backup(home)
    add_messages(home, "four")
    (home.files / "later.txt").write_text("later")
    later = files_of(home)

    restored = restore(done.path, home, now=NOW)

    assert restored.kept == home.backups / KEPT
    assert (messages(home), messages(Home(restored.kept))) == (BEFORE, [*BEFORE, "four"])
    assert not (home.files / "later.txt").exists()

    back = restore(restored.kept, home, now=NOW)

    assert messages(home) == [*BEFORE, "four"]
    assert files_of(home) == later
    assert not restored.kept.exists()
    assert back.kept is not None
    assert messages(Home(back.kept)) == BEFORE


def test_later_files_are_moved_away_except_the_erasures_key(home: Home) -> None:
    for name in ("service.env", "erasures.key"):
        (home.path / name).unlink()
    done = create_backup(home)
    for name in ("service.env", "erasures.key"):
        (home.path / name).write_text(FILES[name])

    restored = restore(done.path, home, now=NOW)

    assert restored.kept is not None
    assert (home.path / "erasures.key").exists()
    assert not (home.path / "service.env").exists()
    assert (restored.kept / "service.env").read_text() == FILES["service.env"]


def test_foreign_files_in_the_home_are_kept(home: Home) -> None:
    done = create_backup(home)
    (home.path / "venv").mkdir()
    (home.path / "venv" / "mine").write_text("mine")
    home.logs.joinpath("daemon.log").write_text("a line")

    restore(done.path, home, now=NOW)

    assert (home.path / "venv" / "mine").read_text() == "mine"
    assert (home.logs / "daemon.log").exists()


def test_a_workspace_is_restored_with_links_and_modes_and_the_old_one_kept(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "workspaces" / "coder"
    before = state(folder)
    done = create_backup(home, with_workspaces=True)
    (folder / "run.sh").write_text("changed")

    restored = restore(done.path, home, now=NOW)

    assert state(folder) == before
    assert (folder / ".claude" / "skills").readlink() == Path("../.agents/skills")
    kept = folder.with_name(f"coder.{KEPT}")
    assert (kept / "run.sh").read_text() == "changed"
    assert any(str(kept) in sentence for sentence in restored.notes)

    assert restored.kept is not None
    restore(restored.kept, home, now=NOW)

    assert (folder / "run.sh").read_text() == "changed"


def test_a_restore_into_another_home_does_not_replace_the_workspace(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "workspaces" / "coder"
    done = create_backup(home, with_workspaces=True)
    (folder / "run.sh").write_text("in use")
    other = Home(tmp_path / "other")
    other.path.mkdir()

    restored = restore(done.path, other, now=NOW)

    assert (folder / "run.sh").read_text() == "in use"
    assert (other.path / "workspaces" / "coder" / "run.sh").read_text() == "#!/bin/sh\n"
    (sentence,) = restored.notes
    assert "agents.coder.working_directory" in sentence


def test_a_missing_workspace_is_restored_to_its_configured_path(home: Home, tmp_path: Path) -> None:
    done = create_backup(home, with_workspaces=True)
    (tmp_path / "workspaces").rename(tmp_path / "gone")
    other = Home(tmp_path / "other")
    other.path.mkdir()

    restored = restore(done.path, other, now=NOW)

    assert (tmp_path / "workspaces" / "coder" / "run.sh").exists()
    assert restored.notes == ()


@pytest.mark.parametrize(("through", "moved"), [(3, False), (4, True)])
def test_a_lake_newer_than_the_database_is_moved_away_with_a_note(home: Home, through: int, moved: bool) -> None:
    done = create_backup(home)
    write_lake(home, through=through)

    restored = restore(done.path, home, now=NOW)

    assert home.lake.exists() is not moved
    assert (home.backups / KEPT / "lake" / "manifest.json").exists() is moved
    assert [sentence for sentence in restored.notes if "The lake was newer" in sentence] == list(restored.notes)
    assert bool(restored.notes) is moved


def test_a_lake_in_the_backup_replaces_the_newer_one(home: Home) -> None:
    write_lake(home, through=3)
    done = create_backup(home, with_lake=True)
    add_messages(home, "four")
    write_lake(home, through=4)

    restored = restore(done.path, home, now=NOW)

    assert (home.lake / "bronze" / "part.parquet").read_text() == "up to 3"
    assert restored.kept is not None
    assert (restored.kept / "lake" / "bronze" / "part.parquet").read_text() == "up to 4"
    assert restored.notes == ()


def test_a_running_pipeline_refuses_the_restore(home: Home) -> None:
    done = create_backup(home)
    write_lake(home, through=3)
    before = files_of(home)

    with writer_lock(home.lake, "run"), pytest.raises(LakeBusy, match="`pipeline run`"):
        restore(done.path, home, now=NOW)

    assert {name: content for name, content in files_of(home).items() if "lock" not in name} == before


def test_the_kept_data_of_one_home_is_refused_for_another(home: Home, tmp_path: Path) -> None:
    restored = restore(create_backup(home).path, home, now=NOW)
    other = Home(tmp_path / "other")
    other.path.mkdir()
    assert restored.kept is not None

    with pytest.raises(BackupError, match="does not belong to"):
        restore(restored.kept, other, now=NOW)

    assert list(other.path.iterdir()) == []


def test_a_restore_without_disk_space_changes_nothing(home: Home, tmp_path: Path) -> None:
    (home.files / "large").write_bytes(bytes(2_000_000))
    done = create_backup(home, to=tmp_path / "archive.zip")
    before = state(home.path)
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from tinyagi.backup.restore import restore\n"
        "from tinyagi.settings.home import Home\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))\n"
        "restore(Path(sys.argv[1]), Home(Path(sys.argv[2])), now=0)\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program, str(done.path), str(home.path)], capture_output=True, text=True, check=False
    )

    assert "BackupError: Nothing was restored" in ended.stderr
    assert state(home.path) == before


def test_linked_settings_are_backed_up_and_replaced(home: Home, tmp_path: Path) -> None:
    text = home.settings_file.read_text()
    home.settings_file.rename(tmp_path / "dotfile.json")
    home.settings_file.symlink_to(tmp_path / "dotfile.json")
    done = create_backup(home)
    os.truncate(tmp_path / "dotfile.json", 0)

    restore(done.path, home, now=NOW)

    assert json.loads(home.settings_file.read_text()) == json.loads(text)
    assert (tmp_path / "dotfile.json").read_text() == "", "the target of the link is not changed"
