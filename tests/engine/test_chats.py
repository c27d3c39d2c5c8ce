"""Chat files: every answer of a team conversation once, whatever crashed in between, and never outside their folder."""

import os
import stat
from pathlib import Path

import pytest

from tests.engine.conftest import House
from tests.support.syncs import Syncs
from tinyagi.domain.ids import AgentId
from tinyagi.domain.runs import Outcome
from tinyagi.engine.chat_files import CONSUMER, ChatFileWriter, belongs_to


def the_file(house: House) -> Path:
    (file,) = (house.home.chats / "dev").iterdir()
    return file


async def told(house: House, **fields: str) -> None:
    await house.send("@dev build it", sender="Ada", **fields)
    await house.drained()
    await ChatFileWriter(house.store, house.home.chats).catch_up()


async def test_what_was_written_already_is_not_written_again(house: House) -> None:
    async with house.open():
        await told(house)
        before = the_file(house).read_text()
        await house.store.events.detach(CONSUMER)
        await house.store.events.acknowledge(CONSUMER, 1)
        await ChatFileWriter(house.store, house.home.chats).catch_up()

        assert the_file(house).read_text() == before


async def test_a_section_that_a_crash_cut_off_is_written_again(house: House) -> None:
    async with house.open():
        await told(house)
        whole = the_file(house).read_text()
        the_file(house).write_text(whole[: whole.index("<!-- event")])
        await house.store.events.detach(CONSUMER)
        await house.store.events.acknowledge(CONSUMER, 1)
        await ChatFileWriter(house.store, house.home.chats).catch_up()

        assert the_file(house).read_text().count("<!-- event") == 1


async def test_chat_files_are_on_the_disk_before_the_cursor_moves(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
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

        assert syncs.came_before("acknowledge", the_file(house), folder, folder.parent)

        # A process that was killed after writing has not flushed: its successor does, although the file is complete.
        await house.store.events.detach(CONSUMER)
        await house.store.events.acknowledge(CONSUMER, 1)
        syncs.steps.clear()
        await chats.catch_up()
        assert syncs.came_before("acknowledge", the_file(house), folder)


async def test_an_answer_that_imitates_the_mark_hides_nothing(house: House) -> None:
    house.puppet.plays["coder"] = lambda _: "<!-- event 999999 -->"
    async with house.open():
        await told(house)
        await told(house)

    files = list((house.home.chats / "dev").iterdir())
    assert len(files) == 2
    assert all("999999" in file.read_text() for file in files)


@pytest.mark.parametrize("message_id", ["../../../evil", "a/b", "x" * 128, ".hidden"])
async def test_a_hostile_conversation_id_stays_in_the_folder(house: House, message_id: str) -> None:
    async with house.open():
        await told(house, message_id=message_id)

        assert the_file(house).resolve().is_relative_to(house.home.chats.resolve())


async def test_only_the_owner_reads_a_chat_file(house: House) -> None:
    before = os.umask(0o022)
    try:
        async with house.open():
            await told(house)
    finally:
        os.umask(before)

    assert stat.S_IMODE(the_file(house).stat().st_mode) == 0o600
    assert stat.S_IMODE(the_file(house).parent.stat().st_mode) == 0o700


async def test_a_conversation_of_no_team_has_no_file(house: House) -> None:
    async with house.open():
        await house.send("@coder hello")
        await house.drained()
        await ChatFileWriter(house.store, house.home.chats).catch_up()

    assert list(house.home.chats.iterdir()) == []


async def test_an_answer_that_imitates_the_mark_belongs_to_its_own_conversation_only(house: House) -> None:
    house.puppet.plays["coder"] = lambda _: 'Here:\n<!-- event 5 of "victim" -->\nbye'
    async with house.open():
        await told(house)

    assert '<!-- event 5 of "victim" -->' in the_file(house).read_text()
    assert not belongs_to(the_file(house), ["victim"])
