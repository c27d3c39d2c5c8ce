"""Responses to people, chat room lines and agent history: their rows and statuses, and the notices people read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from tinyagi.domain.ids import AgentId, ConversationId, MessageId, TeamId


class ResponseStatus(StrEnum):
    PENDING = "pending"
    ACKED = "acked"
    FAILED = "failed"


UNDELIVERED_CHANNELS: Final = frozenset({"heartbeat", "schedule", "board"})
"""Channels without a chat. Their answers go to the agent's history only; no client fetches them."""

PREVIEW_END: Final = "(The full answer is attached.)"
"""How a preview ends; the response's last file holds the whole text."""


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"


class Response(NamedTuple):
    """A stored response: a row of the view `response_rows`, fields in column order."""

    id: int
    message_id: MessageId
    channel: str
    sender: str
    sender_id: str | None
    message: str
    original_message: str
    agent: AgentId | None
    files: str | None
    """JSON array of paths, as stored."""
    metadata: str | None
    """JSON object, as stored."""
    status: ResponseStatus
    conversation_id: ConversationId | None
    seq: int
    """0 is the answer; notices take 1, 2, …"""
    attempts: int
    last_error: str | None
    available_at: int
    created_at: int
    acked_at: int | None
    last_event_id: int


@dataclass(frozen=True, slots=True)
class NewResponse:
    """A message to a person that answers no message: an agent or a tool sends it unprompted."""

    channel: str
    sender: str
    message: str
    sender_id: str | None = None
    agent: AgentId | None = None
    files: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


class ChatMessage(NamedTuple):
    """A line in a team's chat room."""

    id: int
    team_id: TeamId
    from_agent: str
    message: str
    created_at: int


class HistoryEntry(NamedTuple):
    """A line in an agent's history."""

    id: int
    agent_id: AgentId
    role: Role
    channel: str
    sender: str
    message_id: MessageId
    content: str
    created_at: int
    from_agent: AgentId | None = None
    """The teammate that wrote it."""


def paths_in(text: str) -> list[str]:
    """The paths in a JSON array. Other tools write this column too, so anything else gives an empty list."""
    try:
        paths = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []


def dead_notice(agent: str, reason: str) -> str:
    """The notice to the sender of a message that died."""
    return f"@{agent} could not answer this message: {_in_short(reason)}. It is kept and can be retried."


def cancel_notice(agent: str) -> str:
    """The notice to the sender of a message that was cancelled while it waited."""
    return f"This message to @{agent} was cancelled before it was answered."


def held_notice(agent: str, reason: str) -> str:
    """The notice to the sender of a message that waits until a person fixes the agent's provider."""
    return f"@{agent} cannot work now: {_in_short(reason)}. Your message waits and runs once that is fixed."


def _in_short(reason: str) -> str:
    first_line = reason.strip().splitlines()[0] if reason.strip() else "no reason given"
    return first_line[:500].rstrip(".")
