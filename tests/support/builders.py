"""Builds domain values for tests: a test names the fields it needs, the rest has defaults."""

from typing import Final, TypedDict, Unpack

from tinyagi.domain.ids import AgentId, ClaimId, ConversationId, MessageId, TeamId
from tinyagi.domain.messages import Message, NewMessage, Status, thread_of


class MessageFields(TypedDict, total=False):
    id: int
    message_id: MessageId
    channel: str
    sender: str
    sender_id: str | None
    message: str
    agent: AgentId
    from_agent: AgentId | None
    files: str | None
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


_PLAIN: Final = Message(
    id=1,
    message_id=MessageId(""),
    channel="web",
    sender="Ada",
    sender_id=None,
    message="hello",
    agent=AgentId("coder"),
    from_agent=None,
    files=None,
    conversation_id=ConversationId(""),
    conversation_started_at=0,
    conversation_team=None,
    parent_message_id=None,
    hop=0,
    team=None,
    thread="",
    priority=0,
    status=Status.PENDING,
    retry_count=0,
    last_error=None,
    available_at=0,
    claim_id=None,
    started_at=None,
    answered_by=None,
    created_at=0,
    updated_at=0,
    last_event_id=1,
)


def a_message(**overrides: Unpack[MessageFields]) -> Message:
    """A person's pending chat message; its message id, conversation and thread follow from the other fields."""
    message = _PLAIN._replace(**overrides)
    message_id = message.message_id or MessageId(f"{message.channel}_{message.id:08}")
    conversation_id = message.conversation_id or ConversationId(message_id)
    return message._replace(
        message_id=message_id,
        conversation_id=conversation_id,
        thread=message.thread or _derived_thread(message, conversation_id),
    )


def _derived_thread(message: Message, conversation_id: ConversationId) -> str:
    return thread_of(
        NewMessage(
            message=message.message,
            agent=message.agent,
            channel=message.channel,
            sender=message.sender,
            sender_id=message.sender_id,
            from_agent=message.from_agent,
            team=message.team,
        ),
        conversation_id,
    )
