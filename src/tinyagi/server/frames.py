"""Events as frames of the stream: bytes that no text can break."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from tinyagi.domain.events import AgentProgress, RecordedEvent
from tinyagi.domain.texts import clean
from tinyagi.engine.live import LiveProgress
from tinyagi.server.projections import Fields, projection, shown

ALIASES: Final[Mapping[str, str]] = {
    "message_received": "message:incoming",
    "chain_step_start": "agent:invoke",
    "agent_progress": "agent:progress",
    "chain_step_done": "agent:response",
    "chain_handoff": "agent:mention",
    "response_ready": "message:done",
}


@dataclass(frozen=True, slots=True)
class Frame:
    """One fact, ready to be sent, and what filters ask of it."""

    id: int
    """0 for what is live only."""
    type: str
    agents: tuple[str | None, ...]
    conversation: str | None
    canonical: bytes
    both: bytes
    """The alias first, without an id: who has read the id has read both."""


def frame_of(event: RecordedEvent) -> Frame:
    fact = event.payload
    # A hand-off and a move concern the agent that gives and the one that gets.
    agents = (event.agent, fact["to_agent"]) if "to_agent" in fact else (event.agent,)
    fields: Fields = {
        "timestamp": event.created_at,
        "messageId": event.message_id,
        "conversationId": event.conversation_id,
        "agentId": event.agent,
    }
    fields |= projection(event)
    return _frame(event.id, event.type, agents, event.conversation_id, fields)


def frame_of_progress(progress: LiveProgress, now: int) -> Frame:
    message = progress.message
    fields: Fields = {
        "timestamp": now,
        "messageId": message.message_id,
        "conversationId": message.conversation_id,
        "agentId": message.agent,
        "agentName": message.agent,
        "claimId": progress.event.claim_id,
        "text": progress.event.text,
    }
    return _frame(0, AgentProgress.type, (message.agent,), message.conversation_id, fields)


def connected(cursor: int | None, head: int, now: int) -> bytes:
    """The first frame. Its id is where a reader resumes that has seen nothing else."""
    number = b"" if cursor is None else keep_alive(cursor)[:-1]
    return number + _named("connected", _encode({"timestamp": now, "head": head}))


def reset(cursor: int, reason: str, oldest: int, head: int, now: int) -> bytes:
    """Something is missing between the reader's last event and this frame; from its id on nothing is."""
    fields: Fields = {"timestamp": now, "reason": reason, "oldest": oldest, "head": head}
    return keep_alive(cursor)[:-1] + _named("reset", _encode(fields))


def keep_alive(cursor: int) -> bytes:
    """Moves the reader's last event id and dispatches nothing."""
    return b"id: %d\n\n" % cursor


def _frame(
    number: int, event_type: str, agents: tuple[str | None, ...], conversation: str | None, fields: Fields
) -> Frame:
    data = _encode(shown(fields))
    canonical = _named(event_type, data)
    if number:
        canonical = b"id: %d\n%b" % (number, canonical)
    alias = ALIASES.get(event_type)
    both = canonical if alias is None else _named(alias, data) + canonical
    return Frame(number, event_type, agents, conversation, canonical, both)


def _named(name: str, data: bytes) -> bytes:
    """The frame of fields that are encoded already: only the type differs between a fact and its alias."""
    label = name.encode()
    return b'event: %b\ndata: {"type":"%b",%b\n\n' % (label, label, data[1:])


def _encode(fields: Fields) -> bytes:
    try:
        data = msgspec.json.encode(fields)
    except UnicodeEncodeError:
        data = msgspec.json.encode(_cleaned(fields))
    if data.isascii():
        return data
    # No end of a line in an event stream, but in many a client's idea of lines.
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
