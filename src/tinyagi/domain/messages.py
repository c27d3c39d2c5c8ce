"""Messages and their lifecycle: statuses, the table of legal transitions, threads, and what a finished run leaves."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import MAX_MESSAGE_ID, AgentId, ClaimId, ConversationId, MessageId, TeamId, is_valid_id
from tinyagi.domain.responses import NOBODYS_CHANNELS
from tinyagi.domain.texts import check_text

if TYPE_CHECKING:
    from tinyagi.domain.brakes import Brakes
    from tinyagi.domain.events import Event, TeamChainStart
    from tinyagi.domain.sessions import Session, SessionId
    from tinyagi.domain.spending import Charge


class Status(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    DEAD = "dead"


ROOM_CHANNEL: Final = "chatroom"
RESERVED_CHANNELS: Final = NOBODYS_CHANNELS | {ROOM_CHANNEL, "internal"}
"""Names of the engine's own messages: no chat is behind them, so a person's message there would never be answered."""
ROOM_PRIORITY: Final = -1
PASSIVE_PRIORITY: Final = -2
"""Of a room post that starts no run and holds back nothing: it waits for the agent's next run and comes along."""


class NewMessage(NamedTuple):
    """A message to enqueue, already routed: `agent` is the lane."""

    message: str
    agent: AgentId
    channel: str = "api"
    sender: str = "API"
    sender_id: str | None = None
    message_id: MessageId | None = None
    """Idempotency key; the store makes one with the channel as prefix when the client gives none."""
    files: tuple[str, ...] = ()
    from_agent: AgentId | None = None
    team: TeamId | None = None
    conversation_id: ConversationId | None = None
    """None starts a conversation that is named after this message."""
    parent_message_id: MessageId | None = None
    hop: int = 0
    priority: int = 0
    available_at: int = 0
    """Not to be run before this instant; 0 is at once, whatever the clock does."""
    thread: str | None = None
    """None derives it: one thread per channel and person."""
    facts: "tuple[Event, ...]" = ()
    """Further facts about this message, recorded in the same transaction."""

    def check(self) -> None:
        """Raise InvalidInput for what no store may take."""
        if not self.agent:
            raise InvalidInput("A message needs an agent: route it first.")
        if not is_valid_id(self.agent):
            raise InvalidInput(f"{self.agent!r} is no agent id: use small letters, digits, - and _.")
        if not is_valid_id(self.channel):
            raise InvalidInput(f"{self.channel!r} is no channel: use small letters, digits, - and _.")
        if self.message_id is not None and not 0 < len(self.message_id) <= MAX_MESSAGE_ID:
            raise InvalidInput(
                f"A messageId has 1 to {MAX_MESSAGE_ID} characters, this one has {len(self.message_id)}."
            )
        if self.priority < ROOM_PRIORITY and (self.channel != ROOM_CHANNEL or self.available_at > 0):
            raise InvalidInput(f"A priority below {ROOM_PRIORITY} is kept for room posts that wake nobody.")
        check_text(f"{self.message}{self.sender}{self.sender_id}{self.message_id}")


class Message(NamedTuple):
    """A stored message: a row of the view `message_rows`, whose columns stand in this order."""

    id: int
    message_id: MessageId
    channel: str
    sender: str
    sender_id: str | None
    message: str
    agent: AgentId
    from_agent: AgentId | None
    files: str | None
    """JSON array of paths, as stored."""
    conversation_id: ConversationId
    conversation_started_at: int
    conversation_team: TeamId | None
    parent_message_id: MessageId | None
    hop: int
    team: TeamId | None
    thread: str
    priority: int
    status: Status
    retry_count: int
    last_error: str | None
    available_at: int
    claim_id: ClaimId | None
    started_at: int | None
    answered_by: MessageId | None
    created_at: int
    updated_at: int
    last_event_id: int

    @property
    def attempt(self) -> int:
        """The number of the run that is going on or comes next, from 1."""
        return self.retry_count + 1

    @property
    def failed_before(self) -> bool:
        return self.retry_count > 0 or self.last_error is not None

    @property
    def is_room_post(self) -> bool:
        return self.channel == ROOM_CHANNEL

    @property
    def priority_once_tried(self) -> int:
        """What failed runs alone the next time, so a room post that only came along has to start that run itself."""
        return max(self.priority, ROOM_PRIORITY)


class Claim(NamedTuple):
    """A hold on a lane and on the messages of one run; the first message is the primary."""

    id: ClaimId
    agent: AgentId
    messages: tuple[Message, ...]
    started_at: int
    lease_until: int
    holds: int
    """How often in a row the lane was held because its provider was unavailable."""
    sessions: "tuple[SessionId, ...]" = ()
    """Where the agent may go on: for all its threads, and for the primary's."""

    @property
    def primary(self) -> Message:
        return self.messages[0]

    @property
    def attempt(self) -> int:
        return self.primary.attempt

    def session_id(self, thread: str, provider: str) -> str | None:
        """The session that this provider is to resume, or None to start a new one."""
        found = (one.session_id for one in self.sessions if one.thread == thread and one.provider == provider)
        return next(found, None)

    @property
    def is_room_only(self) -> bool:
        """True when the run answers nobody: every message is a room post."""
        return self.primary.is_room_post and all(message.is_room_post for message in self.messages)


@dataclass(frozen=True, slots=True)
class Handoff:
    """Work for a teammate; the text is what the teammate reads."""

    to: AgentId
    message: str
    team: TeamId | None = None


@dataclass(frozen=True, slots=True)
class RoomPost:
    """A line in a team's chat room, and the text that each other member reads."""

    team: TeamId
    message: str
    members: tuple[AgentId, ...]
    prompt: str
    wakes: bool = True
    """False lets the post wait for each member's next run instead of starting one."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run used; None where the provider does not tell."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_tokens: int | None = None
    cost: float | None = None
    provider: str | None = None
    model: str | None = None


class Outcome(NamedTuple):
    """All that a successful run leaves behind; stored in one transaction or not at all."""

    answer: str
    response: str | None = None
    """What the person reads; None when it is the answer itself."""
    files: tuple[str, ...] = ()
    metadata: Mapping[str, str] = MappingProxyType({})
    handoffs: tuple[Handoff, ...] = ()
    posts: tuple[RoomPost, ...] = ()
    usage: Usage | None = None
    facts: "tuple[Event, ...]" = ()
    session: "Session | None" = None
    """Where the agent's next run goes on; None leaves what is stored."""
    charge: "Charge | None" = None
    brakes: "Brakes | None" = None
    """Limits for what is handed on: the excess is refused with an event and a notice."""
    chain: "TeamChainStart | None" = None
    """Recorded, with its team, when the conversation has belonged to no team so far."""


def thread_of(message: NewMessage | Message, conversation_id: str) -> str:
    """One partner's line within a lane: a person on a channel, a teammate in a conversation, or a room."""
    if message.thread is not None:
        return message.thread
    # A channel starts with neither sign, so a person can never get into the line of a room or of a teammate.
    if message.channel == ROOM_CHANNEL:
        return f"#{message.team}"
    if message.from_agent is not None:
        return teammate_thread(message.from_agent, conversation_id)
    return f"{message.channel}:{message.sender_id or message.sender}"


def teammate_thread(from_agent: AgentId, conversation_id: str) -> str:
    return f"@{from_agent}/{conversation_id}"
