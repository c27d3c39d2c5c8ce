"""One run: the claim it works on, the outcome it stores, the session it resumes, and its endpoint and limits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from tinyagi.domain.events import Event
from tinyagi.domain.ids import AgentId, ClaimId, TeamId
from tinyagi.domain.limits import Usage
from tinyagi.domain.messages import Message
from tinyagi.domain.responses import Role

if TYPE_CHECKING:
    from tinyagi.domain.events import TeamChainStart
    from tinyagi.domain.limits import Brakes, Charge


class Claim(NamedTuple):
    """A hold on a lane and on the messages of one run; the first message is the primary."""

    id: ClaimId
    agent: AgentId
    messages: tuple[Message, ...]
    started_at: int
    lease_until: int
    holds: int
    """Holds in a row because the provider was unavailable."""
    sessions: "tuple[ResumableSession, ...]" = ()
    """Sessions the run may resume: the agent's own, and the one of the primary's thread."""
    start_event_id: int = 0
    """The event that records the start of the run."""

    @property
    def primary(self) -> Message:
        return self.messages[0]

    @property
    def attempt(self) -> int:
        return self.primary.attempt

    def session(self, thread: str, provider: str) -> "ResumableSession | None":
        """The session this provider resumes, or None to start a new one."""
        return next((one for one in self.sessions if one.thread == thread and one.provider == provider), None)

    @property
    def is_room_only(self) -> bool:
        """True when every message is a room post, so the run sends no response."""
        return self.primary.is_room_post and all(message.is_room_post for message in self.messages)


@dataclass(frozen=True, slots=True)
class Handoff:
    """Work for a teammate, with the text the teammate reads."""

    to: AgentId
    message: str
    team: TeamId | None = None


@dataclass(frozen=True, slots=True)
class RoomPost:
    """A line in a team's chat room, and the prompt for each other member."""

    team: TeamId
    message: str
    members: tuple[AgentId, ...]
    prompt: str
    wakes: bool = True
    """False lets the post wait for each member's next run instead of starting one."""


class Outcome(NamedTuple):
    """The result of a successful run, stored in one transaction or not at all."""

    answer: str
    response: str | None = None
    """The text for the person, when it differs from the answer."""
    files: tuple[str, ...] = ()
    metadata: Mapping[str, str] = MappingProxyType({})
    handoffs: tuple[Handoff, ...] = ()
    posts: tuple[RoomPost, ...] = ()
    usage: Usage | None = None
    facts: "tuple[Event, ...]" = ()
    session: "Session | None" = None
    """The session the agent's next run resumes; None keeps the stored one."""
    charge: "Charge | None" = None
    brakes: "Brakes | None" = None
    """Limits on hand-offs: those beyond a limit are refused with an event and a notice."""
    chain: "TeamChainStart | None" = None
    """Recorded when the conversation does not belong to a team yet; it then belongs to this one."""


class SessionScope(StrEnum):
    AGENT = "agent"
    """One session for everything the agent does."""
    THREAD = "thread"
    """One session per partner."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of an exchange, resent to a provider that keeps no sessions."""

    role: Role
    content: str


class ResumableSession(NamedTuple):
    """The session that the provider's last successful run left."""

    thread: str
    provider: str
    session_id: str
    state: str | None = None
    """See `Session.state`."""


@dataclass(frozen=True, slots=True)
class Session:
    """The session a successful run leaves for the next one; stored with its completion."""

    thread: str
    """Empty when the agent has one session for all its threads."""
    provider: str
    session_id: str | None
    turns: tuple[Turn, ...] = ()
    """New turns, appended to those of the thread."""
    state: str | None = None
    """What the provider must remember besides the id; only the provider reads it."""


@dataclass(frozen=True, slots=True)
class Deferral:
    """Why messages went back without a run: the event to record and the notice to the primary's sender."""

    fact: Event
    notice: str
    hold_until: int | None = None
    """Also hold the whole lane until this instant."""


class Permissions(StrEnum):
    BYPASS = "bypass"
    """The agent uses its tools without asking."""
    DEFAULT = "default"
    """The program's own rules. A tool that needs approval is refused, because no person is there to approve it."""
    PLAN = "plan"
    """Read and plan; change nothing."""


class Wire(StrEnum):
    """Request formats of HTTP endpoints."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address and the key of requests; None means the provider's own default."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    oauth_token: str | None = field(default=None, repr=False)
    wire: Wire = Wire.OPENAI


@dataclass(frozen=True, slots=True)
class RunLimits:
    run: timedelta = timedelta(minutes=30)
    idle: timedelta | None = None
    """The longest silence; None allows any."""
    grace: timedelta = timedelta(seconds=5)
    """Between TERM and KILL."""
    max_answer: int = 4_000_000
    """Characters of an answer; a run with a longer one fails instead of filling the memory."""
    history_tokens: int = 16_000
    """Tokens of earlier turns to resend to a provider that keeps no sessions."""
    answer_tokens: int = 8_192
    """The longest answer to request from an endpoint."""
