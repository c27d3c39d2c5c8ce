"""Erasing a person from a database: their texts are gone, and everything else is kept."""

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
ZORA_IDENTITY = Identity("telegram", ZORA_ID, frozenset({ZORA}))


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


def erase_person(eraser: Eraser, identity: Identity = ZORA_IDENTITY) -> tuple[Scope, dict[str, int]]:
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


def test_the_persons_texts_are_gone_and_texts_of_others_stay(database: Path, eraser: Eraser) -> None:
    before = content(database).count(OTHER_MARK)
    assert MARK in content(database)

    erase_person(eraser)
    eraser.__exit__()

    assert MARK not in content(database)
    assert before >= content(database).count(OTHER_MARK) > 10
    assert [row["message"] for row in table(database, "SELECT message FROM messages WHERE sender LIKE 'Bert%'")] == [
        "kwkw asks",
        # It shared a run with a message of the person, and the answer may quote both.
        "",
        "kwkw said",
    ]


def test_rows_ids_and_counts_stay(database: Path, eraser: Eraser) -> None:
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
        _, changed = erase_person(again)

    after = [table(database, query) for query in queries]
    after[4] = [row for row in after[4] if row["id"] <= head]
    assert after == before
    assert changed["messages"] == 8
    assert changed["schedules"] == changed["pairing_requests"] == changed["audit_log"] == 1


async def test_the_events_still_rebuild_the_tables(database: Path, eraser: Eraser) -> None:
    erase_person(eraser)
    eraser.__exit__()

    async with await Store.open(database) as store:
        tables = Tables()
        for event in await read_all(store.events):
            tables.apply(event)

    assert list(tables.messages.values()) == table(database, "SELECT * FROM message_rows ORDER BY id")
    assert list(tables.responses.values()) == table(database, "SELECT * FROM response_rows ORDER BY id")
    columns = ", ".join(HistoryEntry._fields)
    lines = f"SELECT {columns} FROM agent_messages"  # noqa: S608 - fixed names
    assert sorted(tables.agent_messages) == [row["id"] for row in table(database, "SELECT id FROM agent_messages")]
    for row in table(database, lines):
        assert tables.agent_messages[row["id"]] == row
    for row in table(database, "SELECT id, team_id, from_agent, message, created_at FROM chat_messages"):
        assert tables.chat_messages[row["id"]] == row


def test_the_scope_is_every_conversation_with_texts_or_quotes_of_the_person(eraser: Eraser) -> None:
    scope = eraser.scope(ZORA_IDENTITY, Scope())

    assert {"m1", "m3", "m4", "m5"} <= scope.conversations
    assert "m2" not in scope.conversations
    assert scope.agents == {"coder", "tester"}
    assert len(scope.lines) == 2
    assert [Path(file).name for file in scope.files] == ["zqzq-attachment.md"]


def test_history_lines_without_other_records_are_matched_by_name(database: Path, eraser: Eraser) -> None:
    assert eraser.unknown(ZORA_IDENTITY) == frozenset()
    eraser.__exit__()
    connection = apsw.Connection(str(database))
    connection.execute("DELETE FROM events WHERE message_id = 'm5'")
    connection.execute("DELETE FROM messages WHERE message_id = 'm5'")
    connection.close()

    with Eraser(database) as again:
        assert again.unknown(ZORA_IDENTITY) == {"m5"}
        assert "m5" in again.scope(ZORA_IDENTITY, Scope(messages=frozenset({"m5"}))).messages


async def test_open_messages_are_counted(database: Path) -> None:
    async with await Store.open(database, clock=FakeClock()) as store:
        await ask(store, "m9", "zqzq waits")

    with Eraser(database) as eraser:
        assert eraser.open_messages(eraser.scope(ZORA_IDENTITY, Scope())) == 1
        bert = Identity("web", None, frozenset({BERT}))
        assert eraser.open_messages(eraser.scope(bert, Scope())) == 0


async def test_a_database_in_use_is_refused(database: Path) -> None:
    async with await Store.open(database):
        with pytest.raises(StoreBusy, match="tinyagi stop"):
            Eraser(database)


def test_pending_responses_of_the_person_fail(database: Path, eraser: Eraser) -> None:
    erase_person(eraser)
    eraser.__exit__()

    left = table(database, "SELECT channel, sender, status FROM responses WHERE status = 'pending'")
    assert {row["sender"] for row in left} == {BERT}
    facts = table(database, "SELECT payload FROM events WHERE type = 'response_failed'")
    assert facts
    assert all('"final":true' in row["payload"] for row in facts)


def test_turns_of_the_person_are_deleted(database: Path, eraser: Eraser) -> None:
    _, changed = erase_person(eraser)

    assert changed["turns"] == 1


def test_erasing_again_keeps_the_scope(eraser: Eraser) -> None:
    first, _ = erase_person(eraser)
    scope = eraser.scope(ZORA_IDENTITY, Scope(first.conversations, first.messages))

    assert scope.conversations == first.conversations
    assert eraser.former() == {pseudonym_of(KEY, ZORA_IDENTITY)}


def test_an_ambiguous_person_is_refused() -> None:
    seen = {SenderAlias("telegram", "Ada", "1"), SenderAlias("telegram", "Ada"), SenderAlias(ROOM_CHANNEL, "Ada")}

    assert identify(Person(sender="Ada"), seen) == Identity("telegram", "1", frozenset({"Ada"}))
    with pytest.raises(Conflict, match="2 people: telegram id 1, telegram id 2"):
        identify(Person("telegram", "Ada"), seen | {SenderAlias("telegram", "Ada", "2")})
    with pytest.raises(Conflict, match="telegram id 1, 'Ada' on web"):
        identify(Person(sender="Ada"), seen | {SenderAlias("web", "Ada")})
    assert identify(Person("web", "Ada"), seen | {SenderAlias("web", "Ada")}).channel == "web"
    with pytest.raises(NotFound, match="'Bob' on web"):
        identify(Person("web", "Bob"), seen)
    with pytest.raises(InvalidInput, match="person to forget"):
        Person("web").check()


def test_a_person_with_the_same_name_and_another_id_is_kept() -> None:
    redaction = Redaction(KEY, erasure_of(KEY, ZORA_IDENTITY, Scope(), through_id=9, now=1))

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
def test_unknown_texts_in_a_payload_are_removed(payload: str, left: str) -> None:
    scope = Scope(conversations=frozenset({"c"}))
    redaction = Redaction(KEY, erasure_of(KEY, ZORA_IDENTITY, scope, through_id=9, now=1))

    assert redaction.redacted(9, "message_failed", None, "c", None, payload) == left
    assert redaction.redacted(10, "message_failed", None, "c", None, payload) == payload
    assert redaction.redacted(9, "message_failed", None, "d", None, payload) == payload
