"""Messages: their form in the queue, the thread each belongs to, and which of them share a run."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.ids import MAX_MESSAGE_ID, AgentId, ClaimId, ConversationId, MessageId, TeamId, is_valid_id
from tinyagi.domain.responses import UNDELIVERED_CHANNELS
from tinyagi.domain.texts import check_key, check_text

if TYPE_CHECKING:
    from tinyagi.domain.events import Event

ROOM_CHANNEL: Final = "chatroom"
RESERVED_CHANNELS: Final = UNDELIVERED_CHANNELS | {ROOM_CHANNEL, "internal"}
"""Channels of the engine's own messages. No chat is behind them, so a person's message there would get no answer."""
ROOM_PRIORITY: Final = -1
PASSIVE_PRIORITY: Final = -2
"""A passive room post. It starts no run and blocks no other message; the agent's next run takes it along."""

PLATFORM_CHANNELS: Final = frozenset({"discord", "telegram", "whatsapp", "webhook"})
"""Channels whose answers a relay delivers. Only people who are paired write there, and each chat has an address."""
CHAT_CHANNELS: Final = frozenset({"discord", "telegram", "whatsapp", "web"})
"""Channels where a person's waiting messages share a run."""
MAX_MESSAGES: Final = 20
MAX_CHARACTERS: Final = 32_000


class Status(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    DEAD = "dead"


class NewMessage(NamedTuple):
    """A message to enqueue, already routed: `agent` is the lane."""

    message: str
    agent: AgentId
    channel: str = "api"
    sender: str = "API"
    sender_id: str | None = None
    message_id: MessageId | None = None
    """Idempotency key; when None, the store makes one with the channel as prefix."""
    files: tuple[str, ...] = ()
    from_agent: AgentId | None = None
    team: TeamId | None = None
    conversation_id: ConversationId | None = None
    """None starts a conversation named after this message."""
    parent_message_id: MessageId | None = None
    hop: int = 0
    priority: int = 0
    available_at: int = 0
    """The earliest instant of its run; 0 means at once, even after the clock was set back."""
    thread: str | None = None
    """None derives one thread per channel and person."""
    facts: "tuple[Event, ...]" = ()
    """Further events about this message, recorded in the same transaction."""

    def check(self) -> None:
        """Raise InvalidInput for a message that no store may accept."""
        if not self.agent:
            raise InvalidInput("A message needs an agent: route it first.")
        if not is_valid_id(self.agent):
            raise InvalidInput(f"{self.agent!r} is not an agent id: use lowercase letters, digits, - and _.")
        if not is_valid_id(self.channel):
            raise InvalidInput(f"{self.channel!r} is not a channel name: use lowercase letters, digits, - and _.")
        if self.message_id is not None and not 0 < len(self.message_id) <= MAX_MESSAGE_ID:
            raise InvalidInput(
                f"A messageId has 1 to {MAX_MESSAGE_ID} characters, this one has {len(self.message_id)}."
            )
        if self.priority < ROOM_PRIORITY and (self.channel != ROOM_CHANNEL or self.available_at > 0):
            raise InvalidInput(f"A priority below {ROOM_PRIORITY} is reserved for passive room posts.")
        check_text(f"{self.message}{self.sender}{self.sender_id}{self.message_id}")
        check_key("sender", self.sender)
        check_key("senderId", self.sender_id or "")
        check_key("messageId", self.message_id or "")


class Message(NamedTuple):
    """A stored message: a row of the view `message_rows`, fields in column order."""

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
        """The number of the current or next run, from 1."""
        return self.retry_count + 1

    @property
    def failed_before(self) -> bool:
        return self.retry_count > 0 or self.last_error is not None

    @property
    def is_room_post(self) -> bool:
        return self.channel == ROOM_CHANNEL

    @property
    def priority_once_tried(self) -> int:
        """The priority of a retry. A failed message runs alone, so a passive room post must now start its own run."""
        return max(self.priority, ROOM_PRIORITY)


def thread_of(message: NewMessage | Message, conversation_id: str) -> str:
    """The message's thread within its lane: one per person and channel, per teammate and conversation, or per room."""
    if message.thread is not None:
        return message.thread
    # A channel starts with neither sign, so a person can never join the thread of a room or of a teammate.
    if message.channel == ROOM_CHANNEL:
        return f"#{message.team}"
    if message.from_agent is not None:
        return teammate_thread(message.from_agent, conversation_id)
    return f"{message.channel}:{message.sender_id or message.sender}"


def teammate_thread(from_agent: AgentId, conversation_id: str) -> str:
    return f"@{from_agent}/{conversation_id}"


class Batching(StrEnum):
    THREAD = "thread"
    """One run takes a person's waiting chat messages and the room posts for this agent."""
    ALL = "all"
    """One run takes everything pending in the lane and answers the primary's sender."""
    NONE = "none"
    """Each message gets its own run. Passive room posts still come along, because they never start one."""


def joins_thread(primary: Message) -> bool:
    """True when other messages of the primary's thread may share its run; false for hand-offs and direct calls."""
    return primary.channel in CHAT_CHANNELS and primary.from_agent is None and not primary.failed_before


def coalesce(primary: Message, candidates: Iterable[Message]) -> tuple[Message, ...]:
    """Return the primary and then, in the order of their ids, the candidates that fit into its run.

    A message that failed before runs alone, and later messages of its thread wait behind it. A message that no longer
    fits closes the batch for its thread, so no later message of the thread overtakes it.
    """
    if primary.failed_before:
        return (primary,)
    chosen = [primary]
    characters = len(primary.message)
    waiting: set[str] = set()
    for candidate in sorted(candidates, key=lambda message: message.id):
        if candidate.id == primary.id or candidate.thread in waiting:
            continue
        full = len(chosen) >= MAX_MESSAGES or characters + len(candidate.message) > MAX_CHARACTERS
        if full or candidate.failed_before:
            waiting.add(candidate.thread)
            continue
        chosen.append(candidate)
        characters += len(candidate.message)
    return tuple(chosen)
