"""A backup holds everything a home needs, even under load, or it is not written at all."""

import asyncio
import json
import os
import resource
import subprocess
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from tests.backup.conftest import FILES, NOW, create_backup, messages, prepare_home, state, without_database
from tests.e2e.test_crash import until_finished, worker
from tests.e2e.workers import LANES, POLICY
from tinyagi.backup.archive import open_archive
from tinyagi.backup.create import create
from tinyagi.backup.manifest import BackupError
from tinyagi.backup.restore import restore
from tinyagi.domain.errors import NotFound, StoreError
from tinyagi.domain.messages import NewMessage
from tinyagi.pipeline.errors import LakeBusy
from tinyagi.pipeline.lake import writer_lock
from tinyagi.settings.home import Home
from tinyagi.store.store import Store

MESSAGES = 200


@pytest.mark.timeout(120)
async def test_a_backup_under_load_holds_every_row_committed_before_it(tmp_path: Path) -> None:
    home, other = Home(tmp_path / "home"), Home(tmp_path / "other")
    home.prepare()
    other.path.mkdir()
    async with await Store.open(home.database, policy=POLICY) as store:
        await store.queue.enqueue(NewMessage("0", LANES[0]))
        async with worker(home.database):
            # The worker is busy from here on, because messages keep arriving.
            await until_finished(store, 1)
            sent = 0
            under_way, stop = asyncio.Event(), asyncio.Event()

            async def keep_sending() -> None:
                nonlocal sent
                while not stop.is_set():
                    sent += 1
                    await store.queue.enqueue(NewMessage(str(sent), LANES[sent % len(LANES)]))
                    if sent == MESSAGES:
                        under_way.set()

            sending = asyncio.create_task(keep_sending())
            await under_way.wait()
            before = sent - 1
            done = await asyncio.to_thread(create_backup, home)
            stop.set()
            await sending

    restore(done.path, other, now=NOW)

    stored = messages(other)
    assert stored[: before + 1] == [str(number) for number in range(before + 1)]
    assert stored == [str(number) for number in range(len(stored))], "later messages have no gap either"
    async with await Store.open(other.database, policy=POLICY) as store, worker(other.database):
        # Interrupted runs start again, and every message is finished.
        await until_finished(store, len(stored))


def test_the_archive_holds_the_home_and_a_manifest(home: Home) -> None:
    done = create_backup(home)

    assert done.path == home.backups / "tinyagi-20261118T031500Z.zip"
    assert done.path.stat().st_mode & 0o777 == 0o600
    with open_archive(done.path) as archive:
        manifest = archive.manifest
    names = {file.name for file in manifest.files}
    assert names == {"home/tinyagi.db", "home/settings.json", *(f"home/{name}" for name in FILES)}
    assert manifest.folders.keys() >= {"home/channels", "home/files", "home/chats/dev"}
    assert manifest.holds == ["home"]
    assert (manifest.created_at, manifest.home) == (NOW, str(home.path))
    assert manifest.last_event == 3
    with zipfile.ZipFile(done.path) as packed:
        assert packed.testzip() is None
        assert json.loads(packed.read("manifest.json"))["kind"] == "tinyagi backup"
    assert [path.name for path in home.backups.iterdir() if path.name != ".backup.lock"] == [done.path.name]


def test_two_backups_in_the_same_second_have_ordered_names(home: Home) -> None:
    first, second = create_backup(home), create_backup(home)

    assert sorted([first.path, second.path]) == [first.path, second.path]
    assert first.path.exists()


@pytest.mark.parametrize("name", ["", "mine.zip"])
def test_a_backup_is_written_to_the_given_place(home: Home, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()

    done = create_backup(home, to=folder / name)

    assert done.path.parent == folder
    assert done.path.name == (name or "tinyagi-20261118T031500Z.zip")
    assert list(folder.iterdir()) == [done.path]
    assert [path.name for path in home.backups.iterdir()] == [".backup.lock"]


def test_two_homes_can_back_up_into_one_folder_in_the_same_second(home: Home, tmp_path: Path) -> None:
    second, folder = Home(tmp_path / "second"), tmp_path / "shared"
    prepare_home(second, tmp_path / "others")
    folder.mkdir()

    with ThreadPoolExecutor(2) as pool:
        paths = [one.path for one in pool.map(lambda one: create_backup(one, to=folder), (home, second))]

    homes = []
    for path in sorted(folder.iterdir()):
        with open_archive(path) as archive:
            homes.append(archive.manifest.home)
    assert sorted(homes) == sorted([str(home.path), str(second.path)])
    assert sorted(paths) == sorted(folder.iterdir())


def test_an_existing_file_is_not_overwritten(home: Home, tmp_path: Path) -> None:
    (tmp_path / "mine.zip").write_text("precious")

    with pytest.raises(BackupError, match="already exists"):
        create_backup(home, to=tmp_path / "mine.zip")

    assert (tmp_path / "mine.zip").read_text() == "precious"


def test_a_home_without_a_database_has_nothing_to_back_up(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing to back up"):
        create_backup(Home(tmp_path / "none"))

    assert not (tmp_path / "none").exists()


def test_a_damaged_database_is_not_backed_up(home: Home) -> None:
    content = bytearray(home.database.read_bytes())
    content[8192:40_960] = os.urandom(32_768)
    home.database.write_bytes(content)

    with pytest.raises((BackupError, StoreError), match="damaged"):
        create_backup(home)

    assert [path.name for path in home.backups.iterdir()] == [".backup.lock"]


@pytest.mark.parametrize("limit", [100_000, 1_000_000])
def test_a_full_disk_is_reported_and_leaves_no_files(home: Home, limit: int) -> None:
    """The lower limit is too small for the copy of the database, the higher one for the archive."""
    (home.files / "large").write_bytes(os.urandom(2_000_000))
    before = without_database(home.path)
    command = [sys.executable, "-m", "tinyagi", "--home", str(home.path), "backup", "create"]

    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )

    assert ended.returncode == 1
    assert ended.stderr.startswith("tinyagi: ")
    assert len(ended.stderr.splitlines()) == 1
    assert {name for name in without_database(home.path) if name not in before} == {"backups/.backup.lock"}


def test_leftovers_of_a_killed_backup_are_removed(home: Home) -> None:
    left = home.backups / f".backup-{home.home_id}.new"
    left.mkdir()
    (left / "archive").write_text("half of it")

    create_backup(home)

    assert not left.exists()


def test_outside_links_and_pipes_are_left_out_and_named(home: Home, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not ours")
    (home.files / "out").symlink_to(tmp_path / "secret")
    (home.files / "up").symlink_to("../../secret")
    os.mkfifo(home.files / "pipe")

    done = create_backup(home)

    assert sorted(sentence.split()[0] for sentence in done.left_out) == [
        str(home.files / name) for name in ("out", "pipe", "up")
    ]
    with open_archive(done.path) as archive:
        assert not {"home/files/out", "home/files/up", "home/files/pipe"} & set(archive.manifest.names)


def test_workspaces_are_included_on_request(home: Home, tmp_path: Path) -> None:
    done = create_backup(home, with_workspaces=True)

    with open_archive(done.path) as archive:
        manifest = archive.manifest
    assert manifest.holds == ["home", "workspaces"]
    assert "workspaces/coder/empty" in manifest.folders
    assert manifest.links == {"workspaces/coder/.claude/skills": "../.agents/skills"}
    (script,) = [file for file in manifest.files if file.name == "workspaces/coder/run.sh"]
    assert script.mode == 0o755


def test_a_workspace_is_stored_once_and_never_if_it_contains_the_home(home: Home, tmp_path: Path) -> None:
    settings = json.loads(home.settings_file.read_text())
    settings["agents"] |= {
        "twin": {"provider": "scripted", "working_directory": "coder"},
        "inner": {"provider": "scripted", "working_directory": "coder/.agents"},
        "owner": {"provider": "scripted", "working_directory": str(tmp_path)},
    }
    home.settings_file.write_text(json.dumps(settings))

    done = create_backup(home, with_workspaces=True)

    with open_archive(done.path) as archive:
        assert archive.manifest.agents == ["coder"]
    assert [sentence for sentence in done.left_out if "@owner" in sentence]


def test_a_lake_is_copied_under_its_lock_without_temporary_files(home: Home) -> None:
    write_lake_files(home)
    with writer_lock(home.lake, "run"), pytest.raises(LakeBusy, match="`pipeline run`"):
        create_backup(home, with_lake=True, patience=timedelta())
    assert [path.name for path in home.backups.iterdir()] == [".backup.lock"]

    done = create_backup(home, with_lake=True)

    with open_archive(done.path) as archive:
        lake = sorted(file.name for file in archive.manifest.files if file.name.startswith("home/lake"))
        assert archive.manifest.holds == ["home", "lake"]
    assert lake == ["home/lake/bronze/events/part.parquet", "home/lake/manifest.json"]


def test_a_backup_waits_for_a_run_of_the_pipeline(home: Home) -> None:
    write_lake_files(home)
    over = threading.Event()

    def step(what: str, *_: int) -> None:
        if what == "waiting for the pipeline":
            over.set()

    def run_pipeline() -> None:
        with writer_lock(home.lake, "run"):
            begun.set()
            over.wait()

    begun = threading.Event()
    running = threading.Thread(target=run_pipeline)
    running.start()
    begun.wait()

    done = create(home, now=NOW, with_lake=True, step=step)

    running.join()
    assert done.manifest.holds == ["home", "lake"]


def test_a_backup_does_not_change_the_home(home: Home) -> None:
    before = without_database(home.path)

    done = create_backup(home, with_workspaces=True)

    new = {f"backups/{done.path.name}", "backups/.backup.lock"}
    assert {name: content for name, content in without_database(home.path).items() if name not in new} == before
    assert state(home.path.parent / "workspaces")


def write_lake_files(home: Home) -> None:
    """Write the files of a lake whose writer was killed."""
    for name in ("bronze/events/part.parquet", "bronze/events/_stage/x/y", "_spark/1/z", "_checkpoints/a/b"):
        path = home.lake / name
        path.parent.mkdir(parents=True)
        path.write_text("x")
    (home.lake / "manifest.json").write_text("{}")
