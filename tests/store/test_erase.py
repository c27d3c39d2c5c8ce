"""A person is erased from a database: no word of theirs is left in it, and everything else is."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.support.clock import FakeClock
from tests.support.log import Tables, read_all
from tests.support.people import BERT, MARK, OTHER_MARK, ZORA, ZORA_ID, ask, traffic
from tinyagi.domain.erasure import Identity, Person, Redaction, Scope, SenderAlias, erasure_of, identify, pseudonym_of
from tinyagi.domain.errors import Conflict, InvalidInput, NotFound, StoreBusy
from tinyagi.domain.messages import ROOM_CHANNEL
from tinyagi.domain.responses import HistoryEntry
from tinyagi.store.erase import Eraser
from tinyagi.store.store import Store

KEY = b"k" * 32
ZORA_HERSELF = Identity("telegram", ZORA_ID, frozenset({ZORA}))


@pytest.fixture
async def database(tmp_path: Path) -> Path:
    path = tmp_path / "home" / "tinyagi.db"
    async with await Store.open(path, clock=FakeClock(), dice=random.Random(7)) as store:
        await traffic(store, path.parent / "files")
    return path


@pytest.fixture
def eraser(database: Path) -> Iterator[Eraser]:
    with Eraser(database) as opened:
        yield opened


def erased(eraser: Eraser, identity: Identity = ZORA_HERSELF) -> tuple[Scope, dict[str, int]]:
    scope = eraser.scope(identity, Scope())
    redaction = Redaction(KEY, erasure_of(KEY, identity, scope, through_id=eraser.head(), now=5))
    changed = dict(eraser.erase(redaction, identity, scope, who="owner"))
    eraser.compact()
    return scope, changed


def content(database: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(database.parent.glob("tinyagi.db*")))


def table(database: Path, query: str) -> list[dict[str, Any]]:
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.get_description()]
        return [dict(zip(names, row, strict=True)) for row in cursor]
    finally:
        connection.close()


def test_no_word_of_theirs_is_left_in_the_file_and_every_word_of_others_is(database: Path, eraser: Eraser) -> None:
    before = content(database).count(OTHER_MARK)
    assert MARK in content(database)

    erased(eraser)
    eraser.__exit__()

    assert MARK not in content(database)
    assert before >= content(database).count(OTHER_MARK) > 10
    assert [row["message"] for row in table(database, "SELECT message FROM messages WHERE sender LIKE 'Bert%'")] == [
        "kwkw asks",
        # It came along with a message of theirs, and the answer to both may quote it.
        "",
        "kwkw said",
    ]


def test_rows_ids_and_figures_stay(database: Path, eraser: Eraser) -> None:
    queries = (
        "SELECT id, message_id, conversation_id, hop, status, retry_count, agent FROM messages",
        "SELECT id, message_id, agent, seq FROM responses",
        "SELECT id, agent_id, role, message_id FROM agent_messages",
        "SELECT id, team_id FROM chat_messages",
        "SELECT id, type, message_id, conversation_id, agent, created_at, payload -> 'usage', payload -> 'ids' "
        "FROM events WHERE id <= 1000",
        "SELECT * FROM conversations",
        "SELECT * FROM lane_counters",
    )
    eraser.__exit__()
    before = [table(database, query) for query in queries]

    with Eraser(database) as again:
        head = again.head()
        _, changed = erased(again)

    after = [table(database, query) for query in queries]
    after[4] = [row for row in after[4] if row["id"] <= head]
    assert after == before
    assert changed["messages"] == 7
    assert changed["schedules"] == changed["pairing_requests"] == changed["audit_log"] == 1


async def test_the_facts_still_rebuild_the_tables(database: Path, eraser: Eraser) -> None:
    erased(eraser)
    eraser.__exit__()

    async with await Store.open(database) as store:
        tables = Tables()
        for event in await read_all(store.events):
            tables.apply(event)

    assert list(tables.messages.values()) == table(database, "SELECT * FROM message_rows ORDER BY id")
    assert list(tables.responses.values()) == table(database, "SELECT * FROM response_rows ORDER BY id")
    columns = ", ".join(HistoryEntry._fields)
    lines = f"SELECT {columns} FROM agent_messages"  # noqa: S608 - names of our own
    assert sorted(tables.agent_messages) == [row["id"] for row in table(database, "SELECT id FROM agent_messages")]
    for row in table(database, lines):
        assert tables.agent_messages[row["id"]] == row
    for row in table(database, "SELECT id, team_id, from_agent, message, created_at FROM chat_messages"):
        assert tables.chat_messages[row["id"]] == row


def test_the_scope_is_every_conversation_they_wrote_in_or_that_may_quote_them(eraser: Eraser) -> None:
    scope = eraser.scope(ZORA_HERSELF, Scope())

    assert {"m1", "m3", "m4", "m5"} <= scope.conversations
    assert "m2" not in scope.conversations
    assert scope.agents == {"coder", "tester"}
    assert len(scope.lines) == 2
    assert [Path(file).name for file in scope.files] == ["zqzq-attachment.md"]


def test_lines_of_history_count_by_name_where_nothing_else_tells_whose_they_are(database: Path, eraser: Eraser) -> None:
    assert eraser.unknown(ZORA_HERSELF) == frozenset()
    eraser.__exit__()
    connection = apsw.Connection(str(database))
    connection.execute("DELETE FROM events WHERE message_id = 'm5'")
    connection.execute("DELETE FROM messages WHERE message_id = 'm5'")
    connection.close()

    with Eraser(database) as again:
        assert again.unknown(ZORA_HERSELF) == {"m5"}
        assert "m5" in again.scope(ZORA_HERSELF, Scope(messages=frozenset({"m5"}))).messages


async def test_what_waits_is_counted(database: Path) -> None:
    async with await Store.open(database, clock=FakeClock()) as store:
        await ask(store, "m9", "zqzq waits")

    with Eraser(database) as eraser:
        assert eraser.open_messages(eraser.scope(ZORA_HERSELF, Scope())) == 1
        bert = Identity("web", None, frozenset({BERT}))
        assert eraser.open_messages(eraser.scope(bert, Scope())) == 0


async def test_a_database_that_somebody_uses_is_refused(database: Path) -> None:
    async with await Store.open(database):
        with pytest.raises(StoreBusy, match="tinyagi stop"):
            Eraser(database)


def test_responses_that_nobody_fetched_are_given_up(database: Path, eraser: Eraser) -> None:
    erased(eraser)
    eraser.__exit__()

    left = table(database, "SELECT channel, sender, status FROM responses WHERE status = 'pending'")
    assert {row["sender"] for row in left} == {BERT}
    facts = table(database, "SELECT payload FROM events WHERE type = 'response_failed'")
    assert facts
    assert all('"final":true' in row["payload"] for row in facts)


def test_what_agents_would_go_on_with_is_gone(database: Path, eraser: Eraser) -> None:
    _, changed = erased(eraser)

    assert changed["turns"] == 1


def test_erasing_again_changes_nothing_more(eraser: Eraser) -> None:
    first, _ = erased(eraser)
    scope = eraser.scope(ZORA_HERSELF, Scope(first.conversations, first.messages))

    assert scope.conversations == first.conversations
    assert eraser.former() == {pseudonym_of(KEY, ZORA_HERSELF)}


def test_one_person_is_meant_or_nobody_is_erased() -> None:
    seen = {SenderAlias("telegram", "Ada", "1"), SenderAlias("telegram", "Ada"), SenderAlias(ROOM_CHANNEL, "Ada")}

    assert identify(Person(sender="Ada"), seen) == Identity("telegram", "1", frozenset({"Ada"}))
    with pytest.raises(Conflict, match="2 people: telegram id 1, telegram id 2"):
        identify(Person("telegram", "Ada"), seen | {SenderAlias("telegram", "Ada", "2")})
    with pytest.raises(Conflict, match="telegram id 1, 'Ada' on web"):
        identify(Person(sender="Ada"), seen | {SenderAlias("web", "Ada")})
    assert identify(Person("web", "Ada"), seen | {SenderAlias("web", "Ada")}).channel == "web"
    with pytest.raises(NotFound, match="'Bob' on web"):
        identify(Person("web", "Bob"), seen)
    with pytest.raises(InvalidInput, match="whom to forget"):
        Person("web").check()


def test_somebody_of_the_same_name_with_another_id_is_left_alone() -> None:
    redaction = Redaction(KEY, erasure_of(KEY, ZORA_HERSELF, Scope(), through_id=9, now=1))

    assert redaction.wrote("telegram", "whatever", ZORA_ID)
    assert redaction.wrote("telegram", ZORA)
    assert not redaction.wrote("telegram", ZORA, "another")
    assert not redaction.wrote("web", ZORA)
    assert redaction.thread(f"telegram:{ZORA_ID}") == f"telegram:{redaction.pseudonym}"
    assert redaction.thread("@coder/m1") == "@coder/m1"


@pytest.mark.parametrize(
    ("payload", "left"),
    [
        ('{"id":7,"reason":"secret","kind":"message"}', '{"id":7,"reason":"","kind":"message"}'),
        ('{"unheard":{"of":["secret",1,null]}}', '{"unheard":{"of":["",1,null]}}'),
        ("no json: secret", "{}"),
    ],
)
def test_what_is_not_known_to_be_harmless_goes(payload: str, left: str) -> None:
    scope = Scope(conversations=frozenset({"c"}))
    redaction = Redaction(KEY, erasure_of(KEY, ZORA_HERSELF, scope, through_id=9, now=1))

    assert redaction.redacted(9, "message_failed", None, "c", None, payload) == left
    assert redaction.redacted(10, "message_failed", None, "c", None, payload) == payload
    assert redaction.redacted(9, "message_failed", None, "d", None, payload) == payload
