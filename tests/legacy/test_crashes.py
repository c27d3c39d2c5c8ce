"""An import killed at any step is completed by the next one, without gaps or duplicates."""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.legacy.conftest import BOARD, board_of, imported, part, planned, store_of
from tests.support.old_home import write_json
from tinyagi.domain.board import TaskId
from tinyagi.legacy.old_home import OldHome
from tinyagi.legacy.plan import LEDGER_NAME
from tinyagi.settings.home import Home


@pytest.mark.timeout(120)
async def test_an_import_killed_before_any_step_is_completed_by_the_next_one(tmp_path: Path, old: OldHome) -> None:
    undisturbed = Home(tmp_path / "undisturbed")
    await imported(old, undisturbed)
    expected = await _everything(undisturbed)

    homes = await _killed_at_every_step(old, tmp_path / "killed")

    assert len(homes) > 12
    for home in homes:
        assert not (await planned(old, home)).changes_anything, home
        assert await _everything(home) == expected, home


async def test_rows_missing_in_the_ledger_are_added_to_it_and_not_imported_again(old: OldHome, home: Home) -> None:
    await imported(old, home)
    noted = json.loads((home.path / LEDGER_NAME).read_bytes())
    # The store does not list its comments, so they would count as new.
    write_json(home.path / LEDGER_NAME, {name: noted[name] for name in ("databases", "comments")})
    plan = await planned(old, home)
    assert [one.name for one in plan.parts if one.taken] == []
    assert plan.changes_anything

    await imported(old, home)

    assert json.loads((home.path / LEDGER_NAME).read_bytes()) == noted
    async with store_of(home) as store:
        assert await board_of(store) == BOARD
        await store.board.delete_task(TaskId("task_1"))
    assert not (await planned(old, home)).changes_anything


async def test_a_database_copied_before_a_crash_is_recognised(old: OldHome, home: Home) -> None:
    await imported(old, home)
    ledger = json.loads((home.path / LEDGER_NAME).read_bytes())
    assert set(ledger["databases"].values()) == {"done"}
    write_json(home.path / LEDGER_NAME, {**ledger, "databases": dict.fromkeys(ledger["databases"], "begun")})

    again = await planned(old, home)

    assert part(again, "messages").there == 5
    assert not again.changes_anything


async def _everything(home: Home) -> dict[str, object]:
    """The content of store, settings and folders, without the parts that differ for every import."""
    noted = json.loads((home.path / LEDGER_NAME).read_bytes())
    # A copy that was finished may still be noted as begun.
    del noted["databases"]
    async with store_of(home) as store:
        return {
            "projects": await store.board.projects(),
            "tasks": await store.board.tasks(),
            "board": await board_of(store),
            "schedules": sorted((one.label, one.enabled, one.next_at) for one in await store.schedules.all()),
            "approved": await store.pairing.approved(),
            "pending": await store.pairing.pending(),
            "queue": asdict(await store.queue.depth()),
            "settings": json.loads(home.settings_file.read_bytes()),
            "noted": noted,
            "files": sorted(
                (str(path.relative_to(home.path)), path.read_bytes())
                for tree in ("files", "channels", "chats")
                for path in (home.path / tree).rglob("*")
                if path.is_file()
            ),
        }


async def _killed_at_every_step(old: OldHome, folder: Path) -> list[Home]:
    command = (sys.executable, "-m", "tests.legacy.killed_import", str(old.path), str(folder))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    return [Home(folder / str(step)) for step in range(1, int(printed) + 1)]
