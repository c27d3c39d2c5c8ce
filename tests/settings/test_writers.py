"""Several processes on one settings file, and processes that die while they write it."""

import asyncio
import json
import random
import sys

from tests.settings.conftest import backups, stored, write
from tinyagi.settings.home import Home
from tinyagi.settings.settings_file import SettingsFile

KILLS = 15


async def start(home: Home, *words: str) -> asyncio.subprocess.Process:
    command = (sys.executable, "-m", "tests.settings.writers", words[0], str(home.path), *words[1:])
    return await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)


async def test_concurrent_writers_lose_nothing(home: Home) -> None:
    write(home, {"theirs": {"kept": True}})
    many = 40

    writers = [await start(home, "add", name, str(many)) for name in ("a", "b", "c")]
    codes = [await writer.wait() for writer in writers]

    assert codes == [0, 0, 0]
    raw = stored(home)
    assert raw["theirs"] == {"kept": True}
    assert raw["mine"] == {f"{name}-{number}": True for name in "abc" for number in range(many)}
    shared = raw["shared"]
    assert isinstance(shared, list)
    assert {name: shared.count(name) for name in "abc"} == {"a": many, "b": many, "c": many}
    assert len(backups(home)) == 5


async def test_a_killed_writer_leaves_a_complete_file_and_no_lock(home: Home) -> None:
    dice = random.Random(7)
    acknowledged = 0
    for _ in range(KILLS):
        writer = await start(home, "for-ever")
        assert writer.stdout is not None
        try:
            acknowledged = int(await writer.stdout.readline())
            # A random time within a save.
            await asyncio.sleep(dice.random() * 0.02)
        finally:
            writer.kill()
            rest = await writer.stdout.read()
            await writer.wait()
        # A line that was cut off by the kill acknowledges nothing.
        whole = [int(line) for line in rest.splitlines(keepends=True) if line.endswith(b"\n")]
        acknowledged = max([acknowledged, *whole])

        loaded = SettingsFile(home).read()

        assert loaded is not None
        assert loaded.raw["first"] == loaded.raw["second"]
        assert loaded.raw["first"] in {acknowledged, acknowledged + 1}
    assert SettingsFile(home).update({"mine": 1}).raw["mine"] == 1


async def test_a_crash_before_any_step_leaves_the_old_or_the_new_file(home: Home) -> None:
    writer = await start(home, "die")
    output, _ = await writer.communicate()
    assert writer.returncode == 0
    lines = [json.loads(line) for line in output.splitlines()]
    codes, left, kept, after = zip(*lines, strict=True)

    assert len(codes) > 10
    assert codes == (9,) * (len(codes) - 1) + (0,)
    found = [json.loads(text)["mine"] for text in left]
    assert set(found) == {"old", "new"}
    assert found == sorted(found, key=["old", "new"].index), "once new, never old again"
    assert {json.loads(text)["mine"] for text in kept} == {"old", "new"}
    assert {json.loads(text)["mine"] for text in after} == {"next"}
    assert sorted(home.backups.iterdir()) == backups(home)
    assert len(backups(home)) == 5
    assert {path.name for path in home.path.iterdir() if path.is_file()} == {"settings.json", ".settings.json.lock"}
