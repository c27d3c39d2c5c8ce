"""Erases a person: redacts their rows in one transaction, on a database that no other process has open."""

import json
import random
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import apsw

from tinyagi.domain.chats import person_of
from tinyagi.domain.erasure import Identity, Person, Redaction, Scope, SenderAlias
from tinyagi.domain.errors import NotFound, StoreBusy, StoreError
from tinyagi.domain.ids import IdSource
from tinyagi.domain.messages import ROOM_CHANNEL
from tinyagi.domain.responses import Response, paths_in
from tinyagi.store.connection import check_integrity, load_statements, store_error
from tinyagi.store.migrations import load_migrations
from tinyagi.store.responses import record_failed_delivery
from tinyagi.store.transaction import Context, Transaction
from tinyagi.system.processes import this_process

ACTION: Final = "forget"
"""The action in the audit log."""
UNDELIVERED: Final = "the recipient was erased"
_BUSY_TIMEOUT_MS: Final = 2_000
_PAGE: Final = 5_000

# `redact_lanes` compares hold reasons with events, so events are redacted last.
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
# Each table before the one it refers to.
_DROP_LEGACY: Final = (
    "drop_legacy_events",
    "drop_legacy_conversation_responses",
    "drop_legacy_conversation_agents",
    "drop_legacy_conversations",
)

_now = time.time_ns


class Eraser:
    """One exclusive connection. Its calls block."""

    def __init__(self, path: Path, clock: Callable[[], int] = lambda: _now() // 1_000_000) -> None:
        """Raise NotFound without a database, StoreBusy while another process has it open."""
        if not path.is_file():
            raise NotFound(f"There is no database at {path}: this home has no messages.")
        self._path = path
        self._clock = clock
        self._sql = load_statements()
        try:
            self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOMUTEX)
            self._connection.create_scalar_function("person_of", _person_of, 2, deterministic=True)
        except apsw.Error as error:
            raise store_error(error, path, path.parent / "backups") from error
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def sightings(self, person: Person) -> frozenset[SenderAlias]:
        """Every channel, name and id in the rows that may belong to the person."""
        query = {"sender": person.sender, "sender_id": person.sender_id, "room": ROOM_CHANNEL}
        return frozenset(SenderAlias(*row) for row in self._rows("sightings", query) if None not in row[:2])

    def former(self) -> frozenset[str]:
        """Pseudonyms of people who were erased before."""
        return frozenset(self._column("former_erasures", {"action": ACTION}))

    def channels(self) -> frozenset[str]:
        """All channels with messages, history or responses."""
        return frozenset(self._column("channels_seen", {}))

    def head(self) -> int:
        """The id of the last event."""
        return int(self._rows("event_bounds", {})[0][1])

    def unknown(self, identity: Identity) -> frozenset[str]:
        """Message ids of history lines under one of their names, where no row or event identifies the sender."""
        return frozenset(self._column("unknown_messages_of_person", _person_parameters(identity)))

    def scope(self, identity: Identity, known: Scope) -> Scope:
        """Everything of the person in this database, added to what is already known."""
        person = _person_parameters(identity)
        messages = known.messages.union(self._column("messages_of_person", person))
        conversations, messages = self._spread(known.conversations, messages)
        found = {"messages": _json(messages), "conversations": _json(conversations)}
        lines = {*self._column("lines_of_person", person), *self._column("lines_of_conversations", found)}
        files = {path for text in self._column("files_of_messages", found) for path in paths_in(text)}
        agents = frozenset(self._column("agents_of_messages", found))
        return known | Scope(conversations, messages, frozenset(map(int, lines)), agents, frozenset(files))

    def open_messages(self, scope: Scope) -> int:
        """Number of its messages that are pending or running."""
        return int(self._column("count_open_messages", {"messages": _json(scope.messages)})[0])

    def erase(self, redaction: Redaction, identity: Identity, scope: Scope, *, who: str) -> Mapping[str, int]:
        """Redact the scope in one transaction, with an audit entry for `who`; return the number of rows per table."""
        parameters = _person_parameters(identity)
        parameters |= {"messages": _json(scope.messages), "lines": _json(scope.lines)}
        parameters |= {"pseudonym": redaction.pseudonym}
        with self._transaction() as tx:
            changed = {table: self._change(name, parameters) for name, table in _BY_SCOPE.items()}
            for name in ("rename_message_sender", "rename_response_sender"):
                self._change(name, parameters)
            for (thread,) in self._rows("threads_of_messages", {}):
                if (renamed := redaction.thread(thread)) != thread:
                    self._change("rename_thread", {"thread": thread, "to": renamed})
            changed["events"] = self._redact_events(redaction)
            changed["audit_log"] = self._redact_audit_log(identity, redaction.pseudonym)
            changed |= self._erase_memory(redaction)
            # Pending responses have no recipient any more.
            for row in self._rows("undelivered_responses", parameters):
                response = Response._make(row)
                record_failed_delivery(tx, response, response.attempts, UNDELIVERED, None)
            for name in _DROP_LEGACY:
                self._connection.execute(self._sql[name])
            entry = (tx.now, who, ACTION, redaction.pseudonym, "")
            self._connection.execute(self._sql["insert_audit_entry"], entry)
        return {name: count for name, count in changed.items() if count}

    def compact(self) -> None:
        """Rewrite the file, so that no erased text is left in its free space."""
        with self._translated_errors():
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
                f"{self._path} is in use. Stop TinyAGI with `tinyagi stop`, end other readers, and try again."
            ) from error
        with self._translated_errors():
            check_integrity(connection, self._path, self._path.parent / "backups")
            newest = connection.execute(self._sql["newest_migration"]).get if self._has_ledger() else None
        if newest != load_migrations()[-1][0]:
            raise StoreError(f"{self._path} has another schema version. Start TinyAGI on this home once, then stop it.")

    def _has_ledger(self) -> bool:
        return bool(self._connection.execute(self._sql["has_ledger"]).get)

    def _spread(self, conversations: frozenset[str], messages: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Add the conversations of the messages and the messages of the conversations until nothing is new."""
        while True:
            found = conversations.union(self._column("conversations_of_messages", {"messages": _json(messages)}))
            grown = messages.union(self._column("messages_of_conversations", {"conversations": _json(found)}))
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
            redacted = [names.sub(pseudonym, text) for text in texts]
            if redacted != texts:
                changed.append((number, *redacted))
        self._connection.executemany(self._sql["redact_audit_entry"], changed)
        return len(changed)

    def _erase_memory(self, redaction: Redaction) -> dict[str, int]:
        """Delete sessions and turns that contain the person's texts."""
        counts = {"sessions": 0, "turns": 0}
        for agent, thread in self._rows("remembered_threads", {}):
            if redaction.covers_session(agent, thread):
                counts["sessions"] += self._change("erase_session", (agent, thread))
                counts["turns"] += self._change("erase_turns", (agent, thread))
        return counts

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        with self._translated_errors():
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
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise store_error(error, self._path, self._path.parent / "backups") from error

    def _change(self, name: str, parameters: Any) -> int:
        self._connection.execute(self._sql[name], parameters)
        return self._connection.changes()

    def _rows(self, name: str, parameters: Mapping[str, object]) -> list[Any]:
        with self._translated_errors():
            return self._connection.execute(self._sql[name], parameters).fetchall()

    def _column(self, name: str, parameters: Mapping[str, object]) -> list[Any]:
        return [row[0] for row in self._rows(name, parameters)]


def _person_parameters(identity: Identity) -> dict[str, object]:
    return {
        "channel": identity.channel,
        "sender_id": identity.sender_id,
        "names": _json(identity.names),
        "room": ROOM_CHANNEL,
    }


def _person_of(*values: object) -> str | None:
    channel, sender_id = (value if isinstance(value, str) else None for value in values)
    return person_of(channel, sender_id)


def _json(values: Collection[str | int]) -> str:
    return json.dumps(list(values))
