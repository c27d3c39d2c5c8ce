"""How far each channel was handed over, on the disk."""

import asyncio
import logging
from pathlib import Path

import pytest

from tinyagi.channels.discord.marks import Marks

NOTHING: frozenset[int] = frozenset()


async def stored(path: Path, parents: frozenset[int] = NOTHING, *, bot: int = 1, capacity: int = 1_000) -> Marks:
    marks = Marks(path, capacity=capacity)
    marks.keep_only(bot, parents)
    return marks


async def test_marks_survive_a_restart(tmp_path: Path) -> None:
    marks = await stored(tmp_path / "new" / "marks.json")
    marks.open(50, before=100, person=7)
    marks.advance(50, 120)
    marks.advance(50, 110)
    marks.write()
    again = await stored(tmp_path / "new" / "marks.json")
    assert again.last(50) == 120
    assert again.direct_channel(7) == 50
    assert again.is_direct(50)
    assert (tmp_path / "new" / "marks.json").stat().st_mode & 0o777 == 0o600


async def test_a_direct_chat_begins_with_its_first_message(tmp_path: Path) -> None:
    marks = await stored(tmp_path / "marks.json")
    assert not marks.open(50, before=100, person=7)
    assert marks.last(50) == 99


async def test_a_thread_begins_where_its_channel_began(tmp_path: Path) -> None:
    marks = await stored(tmp_path / "marks.json", frozenset({9}))
    marks.watch(9, 40)
    marks.watch(9, 60)
    assert marks.open(91, before=100, parent=9)
    assert marks.last(91) == 40


async def test_another_bot_begins_anew(tmp_path: Path) -> None:
    marks = await stored(tmp_path / "marks.json")
    marks.open(50, before=100, person=7)
    marks.write()
    again = await stored(tmp_path / "marks.json", bot=2)
    assert again.last(50) is None
    assert again.direct_channel(7) is None


async def test_a_damaged_file_is_reported_and_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "marks.json").write_text('{"channels": {"50": ')
    marks = await stored(tmp_path / "marks.json")
    assert "are not readable" in caplog.text
    marks.open(50, before=100, person=7)
    marks.write()
    assert (await stored(tmp_path / "marks.json")).last(50) == 99


async def test_a_full_disk_does_not_end_the_channel(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    marks = await stored(tmp_path / "file" / "marks.json")
    with caplog.at_level(logging.WARNING):
        marks.write()
    assert "are not written" in caplog.text


async def test_ten_thousand_strangers_do_not_fill_the_disk(tmp_path: Path) -> None:
    marks = await stored(tmp_path / "marks.json")
    for number in range(10_000):
        marks.open(1_000_000 + number, before=10**18 + number, person=5_000_000 + number)
        marks.trim(lambda _: True)
    marks.write()
    assert len(marks.channels()) <= 1_100
    assert (tmp_path / "marks.json").stat().st_size < 100_000
    assert marks.last(1_009_999) is not None
    assert marks.direct_channel(5_000_000) is None


async def test_a_channel_with_waiting_messages_is_not_forgotten(tmp_path: Path) -> None:
    marks = await stored(tmp_path / "marks.json", capacity=2)
    for number in range(1, 6):
        marks.open(number, before=number * 10, person=number)
    assert marks.trim(lambda channel: channel != 1) == [2, 3, 4]
    assert sorted(marks.channels()) == [1, 5]


async def test_a_forgotten_thread_does_not_repeat_what_it_had(tmp_path: Path) -> None:
    marks = await stored(tmp_path / "marks.json", frozenset({9}), capacity=1)
    marks.watch(9, 10)
    for thread in (91, 92):
        marks.open(thread, before=100, parent=9)
        marks.advance(thread, thread * 10)
    marks.trim(lambda channel: channel == 91)
    assert marks.last(91) is None
    marks.open(91, before=2_000, parent=9)
    assert marks.last(91) == 910


async def test_writing_ends_even_when_a_new_mark_comes_at_that_moment(tmp_path: Path) -> None:
    marks = await stored(tmp_path / "marks.json")
    writing = asyncio.create_task(marks.keep_written())
    # The first write, then the pause.
    for _ in range(3):
        await asyncio.sleep(0)
    assert (tmp_path / "marks.json").exists()
    marks.open(50, before=100, person=7)
    writing.cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(writing, return_exceptions=True)
    assert writing.cancelled()
