"""A restored home is the home of the backup, and what it replaced can be had back."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.backup.conftest import FILES, NOW, add_messages, made, messages, state, without_database, wreck
from tinyagi.backup.manifest import BackupError
from tinyagi.backup.restore import restore
from tinyagi.pipeline.errors import LakeBusy
from tinyagi.pipeline.lake import LakeManifest, Pin, write_manifest, writer_lock
from tinyagi.settings.home import Home

BEFORE = ["one", "two", "three"]
KEPT = "before-restore-20261118T031500Z"


def bare(home: Home) -> dict[str, str]:
    """The home without its database and its backups."""
    return {name: content for name, content in without_database(home.path).items() if not name.startswith("backups")}


def lay_lake(home: Home, *, through: int) -> None:
    (home.lake / "bronze").mkdir(parents=True, exist_ok=True)
    (home.lake / "bronze" / "part.parquet").write_text(f"up to {through}")
    write_manifest(home.lake / "manifest.json", LakeManifest(1, through, 0, {"bronze.events": Pin(1, through)}))


def test_a_home_is_restored_elsewhere_with_every_row_and_file(home: Home, tmp_path: Path) -> None:
    done = made(home)
    other = Home(tmp_path / "other")
    other.path.mkdir()

    restored = restore(done.path, other, now=NOW)

    assert messages(other) == BEFORE
    assert bare(other) == {name: content for name, content in bare(home).items() if name != "logs"}
    assert restored.kept is None
    with closing(sqlite3.connect(home.database)) as one, closing(sqlite3.connect(other.database)) as two:
        dumps = [list(database.iterdump()) for database in (one, two)]
    assert dumps[0] == dumps[1]


def test_a_wrecked_home_is_as_it_was(home: Home) -> None:
    before = bare(home)
    done = made(home)
    wreck(home)

    restore(done.path, home, now=NOW)

    assert messages(home) == BEFORE
    assert bare(home) == before


def test_what_is_replaced_is_kept_and_comes_back(home: Home) -> None:
    done = made(home)
    add_messages(home, "four")
    (home.files / "later.txt").write_text("later")
    later = bare(home)

    restored = restore(done.path, home, now=NOW)

    assert restored.kept == home.backups / KEPT
    assert (messages(home), messages(Home(restored.kept))) == (BEFORE, [*BEFORE, "four"])
    assert not (home.files / "later.txt").exists()

    back = restore(restored.kept, home, now=NOW)

    assert messages(home) == [*BEFORE, "four"]
    assert bare(home) == later
    assert not restored.kept.exists()
    assert back.kept is not None
    assert messages(Home(back.kept)) == BEFORE


def test_what_came_after_the_backup_is_set_aside_but_the_key_of_erasures_stays(home: Home) -> None:
    for name in ("service.env", "erasures.key"):
        (home.path / name).unlink()
    done = made(home)
    for name in ("service.env", "erasures.key"):
        (home.path / name).write_text(FILES[name])

    restored = restore(done.path, home, now=NOW)

    assert restored.kept is not None
    assert (home.path / "erasures.key").exists()
    assert not (home.path / "service.env").exists()
    assert (restored.kept / "service.env").read_text() == FILES["service.env"]


def test_files_that_a_home_has_beside_its_own_are_left_alone(home: Home) -> None:
    done = made(home)
    (home.path / "venv").mkdir()
    (home.path / "venv" / "mine").write_text("mine")
    home.logs.joinpath("daemon.log").write_text("a line")

    restore(done.path, home, now=NOW)

    assert (home.path / "venv" / "mine").read_text() == "mine"
    assert (home.logs / "daemon.log").exists()


def test_a_workspace_comes_back_with_its_links_and_modes_and_the_former_one_is_kept(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "workspaces" / "coder"
    before = state(folder)
    done = made(home, with_workspaces=True)
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


def test_another_home_does_not_take_the_workspace_of_the_first_one(home: Home, tmp_path: Path) -> None:
    folder = tmp_path / "workspaces" / "coder"
    done = made(home, with_workspaces=True)
    (folder / "run.sh").write_text("in use")
    other = Home(tmp_path / "other")
    other.path.mkdir()

    restored = restore(done.path, other, now=NOW)

    assert (folder / "run.sh").read_text() == "in use"
    assert (other.path / "workspaces" / "coder" / "run.sh").read_text() == "#!/bin/sh\n"
    (sentence,) = restored.notes
    assert "agents.coder.working_directory" in sentence


def test_a_workspace_that_is_gone_is_put_where_the_settings_want_it(home: Home, tmp_path: Path) -> None:
    done = made(home, with_workspaces=True)
    (tmp_path / "workspaces").rename(tmp_path / "gone")
    other = Home(tmp_path / "other")
    other.path.mkdir()

    restored = restore(done.path, other, now=NOW)

    assert (tmp_path / "workspaces" / "coder" / "run.sh").exists()
    assert restored.notes == ()


@pytest.mark.parametrize(("through", "moved"), [(3, False), (4, True)])
def test_a_lake_that_is_newer_than_the_database_is_set_aside_with_a_sentence(
    home: Home, through: int, moved: bool
) -> None:
    done = made(home)
    lay_lake(home, through=through)

    restored = restore(done.path, home, now=NOW)

    assert home.lake.exists() is not moved
    assert (home.backups / KEPT / "lake" / "manifest.json").exists() is moved
    assert [sentence for sentence in restored.notes if "The lake was newer" in sentence] == list(restored.notes)
    assert bool(restored.notes) is moved


def test_a_lake_of_the_backup_takes_the_place_of_the_newer_one(home: Home) -> None:
    lay_lake(home, through=3)
    done = made(home, with_lake=True)
    add_messages(home, "four")
    lay_lake(home, through=4)

    restored = restore(done.path, home, now=NOW)

    assert (home.lake / "bronze" / "part.parquet").read_text() == "up to 3"
    assert restored.kept is not None
    assert (restored.kept / "lake" / "bronze" / "part.parquet").read_text() == "up to 4"
    assert restored.notes == ()


def test_a_pipeline_at_work_is_not_disturbed(home: Home) -> None:
    done = made(home)
    lay_lake(home, through=3)
    before = bare(home)

    with writer_lock(home.lake, "run"), pytest.raises(LakeBusy, match="`pipeline run`"):
        restore(done.path, home, now=NOW)

    assert {name: content for name, content in bare(home).items() if "lock" not in name} == before


def test_what_a_restore_replaced_in_one_home_is_not_put_into_another(home: Home, tmp_path: Path) -> None:
    restored = restore(made(home).path, home, now=NOW)
    other = Home(tmp_path / "other")
    other.path.mkdir()
    assert restored.kept is not None

    with pytest.raises(BackupError, match="does not belong to"):
        restore(restored.kept, other, now=NOW)

    assert list(other.path.iterdir()) == []


def test_without_room_nothing_is_restored_and_nothing_is_left(home: Home, tmp_path: Path) -> None:
    (home.files / "large").write_bytes(bytes(2_000_000))
    done = made(home, to=tmp_path / "archive.zip")
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


def test_settings_that_are_a_link_are_backed_up_and_replaced(home: Home, tmp_path: Path) -> None:
    text = home.settings_file.read_text()
    home.settings_file.rename(tmp_path / "dotfile.json")
    home.settings_file.symlink_to(tmp_path / "dotfile.json")
    done = made(home)
    os.truncate(tmp_path / "dotfile.json", 0)

    restore(done.path, home, now=NOW)

    assert json.loads(home.settings_file.read_text()) == json.loads(text)
    assert (tmp_path / "dotfile.json").read_text() == "", "what the link leads to is not ours"
