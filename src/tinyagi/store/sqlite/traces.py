"""Traces on SQLite: read from the messages and the log, written by nobody."""

from typing import Any

import msgspec

from tinyagi.domain.ids import ConversationId
from tinyagi.domain.messages import Message, Status
from tinyagi.domain.traces import RUN_EVENTS, ConversationSummary, RunEvent, TracedMessage, trace
from tinyagi.store.sqlite.readers import Readers
from tinyagi.store.sqlite.transaction import encode_json


class SqliteTraces:
    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    async def conversation(self, conversation: ConversationId) -> tuple[TracedMessage, ...]:
        rows = await self._readers.rows("messages_of_conversation", (conversation,))
        messages = [message._replace(status=Status(message.status)) for message in map(Message._make, rows)]
        last_events = encode_json([message.last_event_id for message in messages])
        log = await self._readers.rows("runs_of_conversation", (conversation, last_events))
        return trace(messages, map(_run_event, log))

    async def recent(self, *, limit: int = 50) -> tuple[ConversationSummary, ...]:
        rows = await self._readers.rows("recent_conversations", {"limit": limit})
        return tuple(ConversationSummary(*row) for row in rows)


def _run_event(row: tuple[Any, ...]) -> tuple[int, RunEvent]:
    event_type, payload, at = row
    return at, msgspec.json.decode(payload, type=RUN_EVENTS[event_type])
