"""A takeover that dies, wherever it does, is completed by the next one: nothing is missing, nothing is there twice."""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.legacy.conftest import BOARD, board_of, part, planned, store_of, taken_over
from tests.support.old_home import write_json
from tinyagi.domain.board import TaskId
from tinyagi.legacy.old_home import OldHome
from tinyagi.legacy.plan import LEDGER_NAME
from tinyagi.settings.home import Home


@pytest.mark.timeout(120)
async def test_a_takeover_that_is_killed_before_any_of_its_steps_ends_as_an_undisturbed_one(
    tmp_path: Path, old: OldHome
) -> None:
    calm = Home(tmp_path / "calm")
    await taken_over(old, calm)
    expected = await _everything(calm)

    homes = await _killed_at_every_step(old, tmp_path / "killed")

    assert len(homes) > 12
    for home in homes:
        assert not (await planned(old, home)).changes_anything, home
        assert await _everything(home) == expected, home


async def test_what_was_stored_and_not_noted_is_noted_the_next_time_and_does_not_come_back(
    old: OldHome, home: Home
) -> None:
    await taken_over(old, home)
    noted = json.loads((home.path / LEDGER_NAME).read_bytes())
    # The store does not say which comments it has, so they would be counted as new.
    write_json(home.path / LEDGER_NAME, {name: noted[name] for name in ("databases", "comments")})
    plan = await planned(old, home)
    assert [one.name for one in plan.parts if one.taken] == []
    assert plan.changes_anything

    await taken_over(old, home)

    assert json.loads((home.path / LEDGER_NAME).read_bytes()) == noted
    async with store_of(home) as store:
        assert await board_of(store) == BOARD
        await store.board.delete_task(TaskId("task_1"))
    assert not (await planned(old, home)).changes_anything


async def test_a_copy_that_had_taken_its_place_when_the_takeover_died_is_recognised(old: OldHome, home: Home) -> None:
    await taken_over(old, home)
    ledger = json.loads((home.path / LEDGER_NAME).read_bytes())
    assert set(ledger["databases"].values()) == {"done"}
    write_json(home.path / LEDGER_NAME, {**ledger, "databases": dict.fromkeys(ledger["databases"], "begun")})

    again = await planned(old, home)

    assert part(again, "messages").there == 5
    assert not again.changes_anything


async def _everything(home: Home) -> dict[str, object]:
    """What the store, the settings and the folders hold, without what every takeover makes anew."""
    noted = json.loads((home.path / LEDGER_NAME).read_bytes())
    # A copy that was about to take its place and has done so may stay noted as such.
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
    command = (sys.executable, "-m", "tests.legacy.dying", str(old.path), str(folder))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    return [Home(folder / str(step)) for step in range(1, int(printed) + 1)]
