"""Erase: a person's rows are redacted in one transaction, on a database that nobody else has open."""

import json
import random
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import apsw

from tinyagi.domain.errors import NotFound, StoreBusy, StoreError
from tinyagi.domain.ids import IdSource
from tinyagi.domain.messages import ROOM_CHANNEL
from tinyagi.domain.responses import Response
from tinyagi.store.erasing import Identity, Person, Redaction, Scope, Sighting
from tinyagi.store.sqlite.connection import check, translate
from tinyagi.store.sqlite.operations.deliver import give_up
from tinyagi.store.sqlite.transaction import Context, Transaction
from tinyagi.store.statements import load_migrations, load_statements
from tinyagi.system.processes import this_process

ACTION: Final = "forget"
"""As the audit log names it."""
UNDELIVERED: Final = "nobody is there any more"
_BUSY_TIMEOUT_MS: Final = 2_000
_PAGE: Final = 5_000

# What the reason of a hold is compared with stands in events, which are redacted last.
_BY_SCOPE: Final = {
    "redact_lanes": "lanes",
    "redact_messages": "messages",
    "redact_responses": "responses",
    "redact_agent_messages": "agent_messages",
    "redact_chat_messages": "chat_messages",
    "redact_comments": "comments",
    "erase_schedules": "schedules",
    "erase_pairing_requests": "pairing_requests",
    "erase_paired_senders": "paired_senders",
}

_now = time.time_ns


class SqliteEraser:
    """One exclusive connection. Blocks."""

    def __init__(self, path: Path, clock: Callable[[], int] = lambda: _now() // 1_000_000) -> None:
        """Raise NotFound without a database, StoreBusy while anybody else has it open."""
        if not path.is_file():
            raise NotFound(f"There is no database at {path}: nobody has written to this home.")
        self._path = path
        self._clock = clock
        self._sql = load_statements("sqlite")
        try:
            self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX)
        except apsw.Error as error:
            raise translate(error, path, path.parent / "backups") from error
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def sightings(self, person: Person) -> frozenset[Sighting]:
        asked = {"sender": person.sender, "sender_id": person.sender_id, "room": ROOM_CHANNEL}
        return frozenset(Sighting(*row) for row in self._rows("sightings", asked) if None not in row[:2])

    def former(self) -> frozenset[str]:
        return frozenset(self._column("former_erasures", {"action": ACTION}))

    def channels(self) -> frozenset[str]:
        return frozenset(self._column("channels_seen", {}))

    def head(self) -> int:
        return int(self._rows("event_bounds", {})[0][1])

    def unknown(self, identity: Identity) -> frozenset[str]:
        return frozenset(self._column("unknown_messages_of_person", _who(identity)))

    def scope(self, identity: Identity, given: Scope) -> Scope:
        who = _who(identity)
        messages = given.messages.union(self._column("messages_of_person", who))
        conversations, messages = self._spread(given.conversations, messages)
        told = {"messages": _json(messages), "conversations": _json(conversations)}
        lines = {*self._column("lines_of_person", who), *self._column("lines_of_conversations", told)}
        files = {path for text in self._column("files_of_messages", told) for path in _paths(text)}
        agents = frozenset(self._column("agents_of_messages", told))
        return given | Scope(conversations, messages, frozenset(map(int, lines)), agents, frozenset(files))

    def open_messages(self, scope: Scope) -> int:
        return int(self._column("count_open_messages", {"messages": _json(scope.messages)})[0])

    def erase(self, redaction: Redaction, identity: Identity, scope: Scope, *, who: str) -> Mapping[str, int]:
        told = _who(identity) | {"messages": _json(scope.messages), "lines": _json(scope.lines)}
        told |= {"pseudonym": redaction.pseudonym}
        with self._transaction() as tx:
            changed = {table: self._change(name, told) for name, table in _BY_SCOPE.items()}
            for name in ("rename_message_sender", "rename_response_sender"):
                self._change(name, told)
            for thread in _threads(identity):
                self._change("rename_thread", {"thread": thread, "to": redaction.thread(thread)})
            changed["events"] = self._redact_events(redaction)
            changed["audit_log"] = self._redact_audit_log(identity, redaction.pseudonym)
            changed |= self._erase_memory(redaction)
            # What nobody fetched has nobody to go to any more.
            for row in self._rows("undelivered_responses", told):
                response = Response._make(row)
                give_up(tx, response, response.attempts, UNDELIVERED, None)
            self._connection.execute(self._sql["drop_legacy_events"])
            entry = (tx.now, who, ACTION, redaction.pseudonym, "")
            self._connection.execute(self._sql["insert_audit_entry"], entry)
        return {name: count for name, count in changed.items() if count}

    def compact(self) -> None:
        with self._translated():
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _prepare(self) -> None:
        connection = self._connection
        connection.set_busy_timeout(_BUSY_TIMEOUT_MS)
        try:
            connection.pragma("locking_mode", "exclusive")
            connection.pragma("temp_store", "memory")
            connection.pragma("secure_delete", True)
            connection.pragma("synchronous", "full")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("COMMIT")
        except apsw.BusyError as error:
            raise StoreBusy(
                f"{self._path} is in use. Stop TinyAGI with `tinyagi stop`, end what else reads it, and try again."
            ) from error
        with self._translated():
            check(connection, self._path, self._path.parent / "backups")
            newest = connection.execute(self._sql["newest_migration"]).get if self._has_ledger() else None
        if newest != load_migrations("sqlite")[-1][0]:
            raise StoreError(f"{self._path} is not of this version. Start TinyAGI on this home once, then stop it.")

    def _has_ledger(self) -> bool:
        return bool(self._connection.execute(self._sql["has_ledger"]).get)

    def _spread(self, conversations: frozenset[str], messages: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Until nothing comes in any more: conversations of messages, messages of conversations."""
        while True:
            found = conversations.union(self._column("conversations_of_messages", {"messages": _json(messages)}))
            told = self._column("messages_of_conversations", {"conversations": _json(found)})
            grown = messages.union(told)
            if found == conversations and grown == messages:
                return conversations, messages
            conversations, messages = found, grown

    def _redact_events(self, redaction: Redaction) -> int:
        count, after, head = 0, 0, self.head()
        while after < head:
            page = {"after": after, "through": after + _PAGE, "types": None}
            changed = []
            for row in self._rows("events_between", page):
                number, kind, _, message_id, conversation_id, _, agent, payload, _ = row
                redacted = redaction.redacted(number, kind, message_id, conversation_id, agent, payload)
                if redacted != payload:
                    changed.append((number, redacted))
            self._connection.executemany(self._sql["redact_event"], changed)
            count, after = count + len(changed), after + _PAGE
        return count

    def _redact_audit_log(self, identity: Identity, pseudonym: str) -> int:
        names = re.compile(
            "|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in sorted(identity.words, key=len)[::-1])
        )
        changed = []
        for number, *texts in self._rows("audit_entries", {}):
            without = [names.sub(pseudonym, text) for text in texts]
            if without != texts:
                changed.append((number, *without))
        self._connection.executemany(self._sql["redact_audit_entry"], changed)
        return len(changed)

    def _erase_memory(self, redaction: Redaction) -> dict[str, int]:
        """Where agents would go on with what they were told."""
        counts = {"sessions": 0, "turns": 0}
        for agent, thread in self._rows("remembered_threads", {}):
            if redaction.covers_session(agent, thread):
                counts["sessions"] += self._change("erase_session", (agent, thread))
                counts["turns"] += self._change("erase_turns", (agent, thread))
        return counts

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        with self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                context = Context(self._sql, IdSource(0), random.Random(), this_process())
                tx = Transaction(self._connection, context, self._clock())
                yield tx
                tx.flush()
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise translate(error, self._path, self._path.parent / "backups") from error

    def _change(self, name: str, parameters: Any) -> int:
        self._connection.execute(self._sql[name], parameters)
        return self._connection.changes()

    def _rows(self, name: str, parameters: Mapping[str, object]) -> list[Any]:
        with self._translated():
            return self._connection.execute(self._sql[name], parameters).fetchall()

    def _column(self, name: str, parameters: Mapping[str, object]) -> list[Any]:
        return [row[0] for row in self._rows(name, parameters)]


def _who(identity: Identity) -> dict[str, object]:
    return {
        "channel": identity.channel,
        "sender_id": identity.sender_id,
        "names": _json(identity.names),
        "room": ROOM_CHANNEL,
    }


def _threads(identity: Identity) -> list[str]:
    return [f"{identity.channel}:{word}" for word in identity.words]


def _json(values: Collection[str | int]) -> str:
    return json.dumps(list(values))


def _paths(text: str) -> list[str]:
    """Of a JSON array; other tools may have written anything there."""
    try:
        paths = json.loads(text)
    except ValueError:
        return []
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
