"""Events as SSE frames: encoded once, filtered per reader, cached in batches that readers share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

import msgspec

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.events import EVENT_TYPES, AgentProgress, MessageReceived, RecordedEvent
from tinyagi.domain.messages import RESERVED_CHANNELS
from tinyagi.domain.texts import clean, one_line
from tinyagi.engine.live_progress import ProgressUpdate
from tinyagi.server.event_fields import Fields, projection, without_empty

ALIASES: Final[Mapping[str, str]] = {
    "message_received": "message:incoming",
    "chain_step_start": "agent:invoke",
    "agent_progress": "agent:progress",
    "chain_step_done": "agent:response",
    "chain_handoff": "agent:mention",
    "response_ready": "message:done",
}

NameOf = Callable[[str], str]
"""Returns an agent's display name for its id."""

PAGE: Final = 256
"""Events per read. Batches read from the log end at multiples of it, so that readers can share them."""
BATCH_BYTES: Final = 128 * 1024
"""A batch ends after this size. A reader gets one at a time, and memory holds no more for it."""
CACHE_BYTES: Final = 2 * 1024 * 1024
ENTRY_BYTES: Final = 128
"""Bytes to count for a filter's entry, even when no event of the batch matches it."""

_TYPES: Final = {**{name: name for name in EVENT_TYPES}, **{alias: name for name, alias in ALIASES.items()}}


@dataclass(frozen=True, slots=True)
class Frame:
    """One encoded event, and the fields that filters match."""

    id: int
    """0 for a live event, which is not in the log."""
    type: str
    agents: tuple[str | None, ...]
    conversation: str | None
    canonical: bytes
    both: bytes
    """The alias comes first, without an id: a reader that has the id has both."""


def frame_of(event: RecordedEvent, name_of: NameOf = str) -> Frame:
    payload = event.payload
    # A hand-off or a move concerns the sending and the receiving agent.
    agents = (event.agent, payload["to_agent"]) if "to_agent" in payload else (event.agent,)
    fields: Fields = {
        "timestamp": event.created_at,
        "messageId": event.message_id,
        "conversationId": event.conversation_id,
        "agentId": event.agent,
    }
    fields |= projection(event, None if event.agent is None else name_of(event.agent))
    return _frame(event.id, event.type, agents, event.conversation_id, fields, _alias(event))


def frame_of_progress(progress: ProgressUpdate, now: int, name_of: NameOf = str) -> Frame:
    message = progress.message
    fields: Fields = {
        "timestamp": now,
        "messageId": message.message_id,
        "conversationId": message.conversation_id,
        "agentId": message.agent,
        "agentName": name_of(message.agent),
        "claimId": progress.event.claim_id,
        "text": progress.event.text,
    }
    alias = ALIASES[AgentProgress.type]
    return _frame(0, AgentProgress.type, (message.agent,), message.conversation_id, fields, alias)


def connected_frame(cursor: int | None, head: int, now: int) -> bytes:
    """The first frame. A reader that gets no other resumes after its id."""
    event_id = b"" if cursor is None else keep_alive_frame(cursor)[:-1]
    return event_id + _named("connected", _encode({"timestamp": now, "head": head}))


def reset_frame(cursor: int, reason: str, oldest: int, head: int, now: int) -> bytes:
    """Tells the reader that events before this frame are missing; it is complete again from this id on."""
    fields: Fields = {"timestamp": now, "reason": reason, "oldest": oldest, "head": head}
    return keep_alive_frame(cursor)[:-1] + _named("reset", _encode(fields))


def keep_alive_frame(cursor: int) -> bytes:
    """Moves the reader's last event id without dispatching an event."""
    return b"id: %d\n\n" % cursor


def _alias(event: RecordedEvent) -> str | None:
    if event.type == MessageReceived.type:
        row = event.payload.get("message", {})
        # Clients show `message:incoming` as a message from a person.
        if row.get("from_agent") is not None or row.get("channel") in RESERVED_CHANNELS:
            return None
    return ALIASES.get(event.type)


def _frame(
    event_id: int,
    event_type: str,
    agents: tuple[str | None, ...],
    conversation: str | None,
    fields: Fields,
    alias: str | None,
) -> Frame:
    data = _encode(without_empty(fields))
    canonical = _named(event_type, data)
    if event_id:
        canonical = b"id: %d\n%b" % (event_id, canonical)
    both = canonical if alias is None else _named(alias, data) + canonical
    return Frame(event_id, event_type, agents, conversation, canonical, both)


def _named(name: str, data: bytes) -> bytes:
    """Frame fields that are encoded already: an event and its alias differ only in the type."""
    label = name.encode()
    return b'event: %b\ndata: {"type":"%b",%b\n\n' % (label, label, data[1:])


def _encode(fields: Fields) -> bytes:
    try:
        data = msgspec.json.encode(fields)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_cleaned(fields))
    if data.isascii():
        return data
    # These do not end a line in an event stream, but many clients split lines at them.
    data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return data.replace(b"\xc2\x85", b"\\u0085")


def _cleaned(value: object) -> object:
    match value:
        case str():
            return clean(value)
        case dict():
            return {name: _cleaned(item) for name, item in value.items()}
        case list() | tuple():
            return [_cleaned(item) for item in value]
        case _:
            return value


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events a reader wants. Hashable: readers with equal filters share encoded bytes."""

    types: frozenset[str] | None = None
    agent: str | None = None
    conversation: str | None = None
    aliases: bool = True

    @classmethod
    def parse(cls, query: Mapping[str, Sequence[str]]) -> Self:
        """Read a filter from a query, ignoring unknown parameters; raise InvalidInput for an unknown type or value."""
        (names,) = query.get("names", ["both"])[-1:]
        if names not in {"both", "canonical"}:
            raise InvalidInput(f"names must be both or canonical, not {one_line(names, 60)!r}.")
        types = frozenset(map(_type, _listed(query.get("types", ()))))
        return cls(types or None, _last(query, "agent"), _last(query, "conversation"), names == "both")

    def wants(self, frame: Frame) -> bool:
        return (
            (self.types is None or frame.type in self.types)
            and (self.agent is None or self.agent in frame.agents)
            and (self.conversation is None or frame.conversation == self.conversation)
        )

    def chunk(self, frames: Sequence[Frame]) -> bytes:
        """Join the frames that match, with or without aliases."""
        if self.aliases:
            return b"".join([frame.both for frame in frames if self.wants(frame)])
        return b"".join([frame.canonical for frame in frames if self.wants(frame)])


def _listed(values: Sequence[str]) -> list[str]:
    return [name for value in values for part in value.split(",") if (name := part.strip())]


def _type(name: str) -> str:
    try:
        return _TYPES[name]
    except KeyError:
        raise InvalidInput(f"{one_line(name, 60)!r} is not an event type. See docs/reference/stream.md.") from None


def _last(query: Mapping[str, Sequence[str]], name: str) -> str | None:
    return query[name][-1] if name in query else None


class Batch:
    """Consecutive frames, and their bytes for each filter used so far."""

    def __init__(self, frames: Sequence[Frame], last: int) -> None:
        self.last = last
        """The batch covers every event up to this id."""
        self.size = sum(len(frame.both) for frame in frames)
        """Bytes held in memory; grows with every filter."""
        self.on_growth: Callable[[int], None] | None = None
        self._frames = frames
        self._chunks: dict[EventFilter, bytes] = {}

    @classmethod
    def of_log(
        cls,
        events: Sequence[RecordedEvent],
        upto: int,
        name_of: NameOf = str,
        live: Mapping[int, Sequence[Frame]] = MappingProxyType({}),
    ) -> "Batch":
        """Encode as many events as fit, with `live` frames after their ids. All events cover the log to `upto`."""
        frames: list[Frame] = []
        room, last = BATCH_BYTES, 0
        for event in events:
            if room <= 0:
                return cls(frames, last)
            frames.append(frame_of(event, name_of))
            room -= len(frames[-1].both)
            frames += live.get(event.id, ())
            last = event.id
        return cls(frames, upto)

    def of_log_only(self) -> "Batch":
        """Return the batch without live frames, which late readers must not get."""
        return Batch([frame for frame in self._frames if frame.id], self.last)

    def chunk(self, wanted: EventFilter) -> bytes:
        """Return the bytes for a filter, encoded on first use."""
        chunk = self._chunks.get(wanted)
        if chunk is None:
            chunk = self._chunks[wanted] = wanted.chunk(self._frames)
            grown = len(chunk) + ENTRY_BYTES
            self.size += grown
            if self.on_growth is not None:
                self.on_growth(grown)
        return chunk


class BatchCache:
    """Batches by the id they start after, within a size. The log between two ids never changes, so none gets stale."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._size = 0
        self._batches: dict[int, Batch] = {}

    def get(self, after: int) -> Batch | None:
        return self._batches.get(after)

    def add(self, after: int, batch: Batch) -> None:
        self._discard(after)
        self._batches[after] = batch
        batch.on_growth = self._grow
        self._grow(batch.size)

    def _grow(self, size: int) -> None:
        self._size += size
        while self._size > self._max_bytes:
            self._discard(next(iter(self._batches)))

    def _discard(self, after: int) -> None:
        batch = self._batches.pop(after, None)
        if batch is not None:
            batch.on_growth = None
            self._size -= batch.size
