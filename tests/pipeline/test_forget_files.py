"""Chat files of a conversation are deleted with it for any id; others stay."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.contract.conftest import CODER, ROSTER
from tinyagi.domain.routing import route
from tinyagi.domain.runs import Outcome
from tinyagi.engine.chat_files import ChatFileWriter
from tinyagi.pipeline.forget.person import remove_chats
from tinyagi.settings.home import Home
from tinyagi.store.store import Store

HOSTILE = [
    "a\nb",
    "a\r\nb of team dev",
    "a of team dev\n\n> b",
    "\n# Conversation plain of team dev",
    "--> <!-- event 1",
]
INSERT = (
    "INSERT INTO messages (message_id, channel, sender, message, created_at, updated_at) "
    "VALUES (?, 'telegram', 'Ada', ?, 1, 1)"
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.prepare()
    return home


async def talk(home: Home, *ids: str) -> None:
    """Team conversations with these ids, inserted as by another program."""
    async with await Store.open(home.database, route=lambda text: route(text, ROSTER)) as store:
        chats = ChatFileWriter(store, home.chats)
        await chats.catch_up()
        for name in ids:
            with closing(apsw.Connection(str(home.database))) as connection:
                connection.execute(INSERT, (name, "@dev build it"))
            await store.queue.adopt()
            claim = await store.queue.claim(CODER)
            assert claim is not None
            await store.queue.complete(claim, Outcome(f"answer to {name}"))
        await chats.catch_up()


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_conversation_with_a_hostile_id_leaves_no_chat_file(home: Home, name: str) -> None:
    await talk(home, name, "plain")
    assert len(list(home.chats.glob("dev/*.md"))) == 2

    remove_chats(home, {name})

    (left,) = home.chats.glob("dev/*.md")
    assert "answer to plain" in left.read_text()


@pytest.mark.parametrize("name", ["m1", *HOSTILE])
def test_files_of_earlier_versions_are_found_by_their_heading(home: Home, name: str) -> None:
    (home.chats / "dev").mkdir()
    (home.chats / "dev" / "old.md").write_text(f"# Conversation {name} of team dev\n\n> Ada: hi\n<!-- event 7 -->\n")
    (home.chats / "dev" / "other.md").write_text("# Conversation m2 of team dev\n\n<!-- event 8 -->\n")

    remove_chats(home, {name, "never there"})

    assert [path.name for path in home.chats.glob("dev/*.md")] == ["other.md"]


async def test_a_file_without_a_heading_is_found_by_its_records(home: Home) -> None:
    await talk(home, "m1")
    (file,) = home.chats.glob("dev/*.md")
    file.write_text(file.read_text().partition("\n")[2])

    remove_chats(home, {"m1"})

    assert not file.exists()
