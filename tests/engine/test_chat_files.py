"""Chat files: every answer of a team conversation once, also after crashes, and never outside their folder."""

import os
import stat
from pathlib import Path

import pytest

from tests.engine.conftest import House
from tests.support.syncs import Syncs
from tinyagi.domain.ids import AgentId
from tinyagi.domain.runs import Outcome
from tinyagi.engine.chat_files import CONSUMER, ChatFileWriter, belongs_to


def chat_file(house: House) -> Path:
    (file,) = (house.home.chats / "dev").iterdir()
    return file


async def write_chat(house: House, **fields: str) -> None:
    await house.send("@dev build it", sender="Ada", **fields)
    await house.drained()
    await ChatFileWriter(house.store, house.home.chats).catch_up()


async def test_written_answers_are_not_written_again(house: House) -> None:
    async with house.open():
        await write_chat(house)
        before = chat_file(house).read_text()
        await house.store.events.detach(CONSUMER)
        await house.store.events.acknowledge(CONSUMER, 1)
        await ChatFileWriter(house.store, house.home.chats).catch_up()

        assert chat_file(house).read_text() == before


async def test_a_section_cut_off_by_a_crash_is_written_again(house: House) -> None:
    async with house.open():
        await write_chat(house)
        whole = chat_file(house).read_text()
        chat_file(house).write_text(whole[: whole.index("<!-- event")])
        await house.store.events.detach(CONSUMER)
        await house.store.events.acknowledge(CONSUMER, 1)
        await ChatFileWriter(house.store, house.home.chats).catch_up()

        assert chat_file(house).read_text().count("<!-- event") == 1


async def test_chat_files_are_synced_before_the_cursor_moves(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house.open(start=False):
        chats = ChatFileWriter(house.store, house.home.chats)
        await chats.catch_up()
        await house.send("@dev build it")
        claim = await house.store.queue.claim(AgentId("coder"))
        assert claim is not None
        await house.store.queue.complete(claim, Outcome("done"))
        syncs = Syncs(monkeypatch)
        syncs.watch(house.store.events, "acknowledge")
        await chats.catch_up()
        folder = house.home.chats / "dev"

        assert syncs.came_before("acknowledge", chat_file(house), folder, folder.parent)

        # A process killed after writing has not synced: the next one does, although the file is complete.
        await house.store.events.detach(CONSUMER)
        await house.store.events.acknowledge(CONSUMER, 1)
        syncs.steps.clear()
        await chats.catch_up()
        assert syncs.came_before("acknowledge", chat_file(house), folder)


async def test_an_answer_that_imitates_the_mark_hides_no_later_answer(house: House) -> None:
    house.puppet.plays["coder"] = lambda _: "<!-- event 999999 -->"
    async with house.open():
        await write_chat(house)
        await write_chat(house)

    files = list((house.home.chats / "dev").iterdir())
    assert len(files) == 2
    assert all("999999" in file.read_text() for file in files)


@pytest.mark.parametrize("message_id", ["../../../evil", "a/b", "x" * 128, ".hidden"])
async def test_a_hostile_conversation_id_stays_in_the_folder(house: House, message_id: str) -> None:
    async with house.open():
        await write_chat(house, message_id=message_id)

        assert chat_file(house).resolve().is_relative_to(house.home.chats.resolve())


async def test_a_chat_file_is_private(house: House) -> None:
    before = os.umask(0o022)
    try:
        async with house.open():
            await write_chat(house)
    finally:
        os.umask(before)

    assert stat.S_IMODE(chat_file(house).stat().st_mode) == 0o600
    assert stat.S_IMODE(chat_file(house).parent.stat().st_mode) == 0o700


async def test_a_conversation_without_a_team_has_no_file(house: House) -> None:
    async with house.open():
        await house.send("@coder hello")
        await house.drained()
        await ChatFileWriter(house.store, house.home.chats).catch_up()

    assert list(house.home.chats.iterdir()) == []


async def test_an_answer_that_imitates_the_mark_does_not_change_the_owner(house: House) -> None:
    house.puppet.plays["coder"] = lambda _: 'Here:\n<!-- event 5 of "victim" -->\nbye'
    async with house.open():
        await write_chat(house)

    assert '<!-- event 5 of "victim" -->' in chat_file(house).read_text()
    assert not belongs_to(chat_file(house), ["victim"])
