"""Answers on their way to people, lines in chat rooms, and the history of an agent: the rows and their statuses."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from tinyagi.domain.ids import AgentId, ConversationId, MessageId, TeamId


class ResponseStatus(StrEnum):
    PENDING = "pending"
    ACKED = "acked"
    FAILED = "failed"


NOBODYS_CHANNELS: Final = frozenset({"heartbeat", "schedule", "board"})
"""No chat is behind them: their answers are read in the agent's history, so none has to be fetched."""


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"


class Response(NamedTuple):
    """A stored response: a row of the view `response_rows`, whose columns stand in this order."""

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
    """A message to a person that answers nothing: sent by an agent or a tool on its own account."""

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


def dead_notice(agent: str, reason: str) -> str:
    """What a person reads when their message died."""
    return f"@{agent} could not answer this message: {_in_short(reason)}. It is kept: retry it when that is mended."


def held_notice(agent: str, reason: str) -> str:
    """What a person reads when their message waits for somebody to mend the agent's provider."""
    return f"@{agent} cannot work now: {_in_short(reason)}. Your message waits and runs when that is mended."


def _in_short(reason: str) -> str:
    first_line = reason.strip().splitlines()[0] if reason.strip() else "no reason given"
    return first_line[:500].rstrip(".")
