"""Where an agent goes on: the session of its provider, or the turns themselves where a provider keeps none."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tinyagi.domain.responses import Role


class SessionScope(StrEnum):
    AGENT = "agent"
    """One session for everything the agent does."""
    THREAD = "thread"
    """One session per partner."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One side of an exchange, as a provider without sessions of its own is told it again."""

    role: Role
    content: str


class SessionId(NamedTuple):
    """What a provider called the session that the last good run left."""

    thread: str
    provider: str
    session_id: str


@dataclass(frozen=True, slots=True)
class Session:
    """What a successful run leaves to be resumed; stored with its completion."""

    thread: str
    """Empty when the agent has one session for all its threads."""
    provider: str
    session_id: str | None
    turns: tuple[Turn, ...] = ()
    """To be added to the turns of this thread."""
