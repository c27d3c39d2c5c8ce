"""A restore killed at any step leaves the old home, the new one, or a journal that completes it."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.backup.conftest import NOW, add_messages, create_backup, messages, prepare_home, state
from tests.contract.conftest import CODER
from tinyagi.backup.manifest import ENTRIES
from tinyagi.backup.restore import restore
from tinyagi.backup.swap import finish
from tinyagi.domain.errors import Conflict
from tinyagi.domain.messages import NewMessage
from tinyagi.settings.home import Home
from tinyagi.store.store import Store
from tinyagi.wiring import open_eraser, open_inbox

BEFORE, AFTER = ["one", "two", "three"], ["one", "two", "three", "four", "five"]


@pytest.mark.timeout(300)
def test_a_restore_killed_at_any_step_leaves_the_old_or_the_new_home(tmp_path: Path) -> None:
    archive, template, folder = tmp_path / "archive.zip", tmp_path / "template", tmp_path / "homes"
    prepare_archive_and_template(archive, template)
    calm = Home(tmp_path / "calm")
    shutil.copytree(template, calm.path, symlinks=True)
    restore(archive, calm, now=NOW)
    old, new = contents_of(Home(template)), contents_of(calm)
    assert (old["messages"], new["messages"]) == (AFTER, BEFORE)

    count = kill_at_every_step(archive, template, folder)

    ends = Counter[str]()
    for number in range(1, count):
        home = Home(folder / str(number))
        if home.restore_journal.exists():
            ends["cut off"] += 1
            assert_home_refused(home)
            finish(home)
        assert not home.restore_journal.exists()
        found = contents_of(home)
        assert found in (old, new), number
        ends["old" if found == old else "new"] += 1
        assert not (home.path / ".restore.new").exists(), number
        if found == new:
            (kept,) = home.backups.glob("before-restore-*")
            restore(kept, home, now=NOW)
            assert contents_of(home) == old, f"{number}: the replaced data was kept whole"
        restore(archive, home, now=NOW)
        assert contents_of(home) == new, f"{number}: a second restore succeeds"
    assert min(ends["cut off"], ends["old"], ends["new"]) > 5, ends


def test_a_folder_created_by_a_start_does_not_block_the_completion(home: Home, tmp_path: Path) -> None:
    """`start` creates missing folders and settings before it completes a restore."""
    done = create_backup(home)
    add_messages(home, "four")
    assert not restore_killed_after_files_moved_away(done.path, home)
    home.prepare()
    assert list(home.files.iterdir()) == []

    finish(home)

    assert (home.files / "note.txt").read_text() == "an attachment"
    assert messages(home) == BEFORE


def test_an_unreadable_journal_is_reported(home: Home) -> None:
    home.restore_journal.write_text("{")

    with pytest.raises(Exception, match="is the journal of an interrupted restore"):
        finish(home)


def prepare_archive_and_template(archive: Path, template: Path) -> None:
    """Make a home whose newest message is only in the write-ahead log, and an older backup of it."""
    home = Home(archive.with_name("made"))
    prepare_home(home, home.path / "workspaces")
    settings = json.loads(home.settings_file.read_text())
    home.settings_file.write_text(json.dumps({**settings, "workspace": {"path": "workspaces"}}))
    create_backup(home, to=archive, with_workspaces=True)
    add_messages(home, "four")
    (home.files / "later.txt").write_text("later")
    (home.path / "workspaces" / "coder" / "run.sh").write_text("changed")

    async def copy_in_use() -> None:
        async with await Store.open(home.database) as store:
            await store.queue.enqueue(NewMessage("five", CODER))
            shutil.copytree(home.path, template, symlinks=True)

    asyncio.run(copy_in_use())
    assert (template / "tinyagi.db-wal").stat().st_size > 0


def contents_of(home: Home) -> dict[str, object]:
    """Everything that a restore replaces. The database is read from a copy, because opening it changes its files."""
    copy = Home(home.path.with_name(f"{home.path.name}-copy"))
    copy.path.mkdir()
    for path in home.path.glob("tinyagi.db*"):
        shutil.copy(path, copy.path)
    try:
        stored = messages(copy)
    finally:
        shutil.rmtree(copy.path)
    whole = state(home.path)
    roots = (*ENTRIES, "workspaces")
    files = {name: what for name, what in whole.items() if name.split("/")[0] in roots and ".before-" not in name}
    return {"messages": stored, "files": files}


def kill_at_every_step(archive: Path, template: Path, folder: Path) -> int:
    command = [sys.executable, "-m", "tests.backup.dying", str(archive), str(template), str(folder)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def restore_killed_after_files_moved_away(archive: Path, home: Home) -> bool:
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tinyagi.backup.restore import restore\n"
        "from tinyagi.settings.home import Home\n"
        "def step(event, arguments):\n"
        "    if event == 'os.rename' and str(arguments[0]).endswith('.restore.new/files'):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.addaudithook(step)\n"
        "restore(Path(sys.argv[1]), Home(Path(sys.argv[2])), now=0)\n"
    )
    command = [sys.executable, "-c", program, str(archive), str(home.path)]
    return subprocess.run(command, check=False).returncode == 0


def assert_home_refused(home: Home) -> None:
    """Other programs must not create an empty database during a restore."""

    async def enter() -> None:
        async with open_inbox(home):
            raise AssertionError

    with pytest.raises(Conflict, match="`tinyagi start` completes it"):
        asyncio.run(enter())
    with pytest.raises(Conflict, match="running or was interrupted"):
        open_eraser(home)
    if home.database.exists():
        with pytest.raises(Conflict, match="running or was interrupted"):
            create_backup(home)
