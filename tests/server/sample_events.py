"""One recorded event of every type, as the store would have written it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.support.builders import a_message
from tinyagi.domain import events
from tinyagi.domain.events import Event, RecordedEvent
from tinyagi.domain.ids import AgentId, ClaimId, ConversationId, MessageId, TeamId
from tinyagi.domain.limits import Usage
from tinyagi.domain.responses import ChatMessage, Response, ResponseStatus
from tinyagi.domain.retry import HoldCause

CODER, WRITER, DEV, CLAIM = AgentId("coder"), AgentId("writer"), TeamId("dev"), ClaimId("claim_1")
USED = Usage(10, 20, 0, 0.5, "anthropic", "opus")
ONE = (MessageId("web_1"),)


def recorded(fact: Event, number: int = 7, **columns: Any) -> RecordedEvent:
    """The event as read from the log: its payload has been through JSON."""
    payload = msgspec.json.decode(msgspec.json.encode(fact))
    plain: dict[str, Any] = {"message_id": "web_1", "conversation_id": "web_1", "agent": "coder", "created_at": 99}
    return RecordedEvent(
        id=number,
        type=fact.type,
        version=fact.version,
        conversation_started_at=5,
        payload=payload,
        **{**plain, **columns},
    )


def every_event(text: str = "hello") -> Mapping[str, Event]:
    """One event of each type, with this text in every field that holds free text."""
    message = a_message(message=text, from_agent=WRITER, team=DEV)
    response = Response(
        *(3, MessageId("web_1"), "web", "Ada", None, text, text, CODER, None, None, ResponseStatus.PENDING),
        *(ConversationId("web_1"), 0, 0, None, 0, 99, None, 8),
    )
    post = ChatMessage(4, DEV, "coder", text, 99)
    facts = (
        events.MessageReceived(message._asdict(), 1),
        events.AgentRouted("Coder", "anthropic", "opus", DEV),
        events.ChainStepStart(CLAIM, (1,), ONE, 2, WRITER, 15),
        events.ChainStepDone(CLAIM, (1,), ONE, "web", "Ada", text, 2, DEV, 1500, USED),
        events.ChainHandoff(DEV, CODER, WRITER, MessageId("internal_2")),
        events.ResponseReady(response._asdict()),
        events.TeamChainStart(DEV, (CODER, WRITER), CODER),
        events.TeamChainEnd(DEV, 3),
        events.MessageFailed(1, CLAIM, 1, True, "message", text, 500, USED),
        events.MessageDead(1, CLAIM, 5, "message", text, USED),
        events.MessageStopped(1, CLAIM, 1, text),
        events.MessageReleased(1, CLAIM, 1, text),
        events.MessageRecovered(1, CLAIM, 1, text),
        events.MessageRetried(1, text),
        events.MessageMoved(1, WRITER),
        events.MessageDeleted(1, text),
        events.ResponseAcked(3),
        events.ResponseFailed(3, 2, text, 500, False),
        events.ChatPosted(post._asdict()),
        events.RowImported("messages", message._asdict()),
        events.LoopStopped(text, 10, (WRITER,)),
        events.BudgetReached("agent:coder", text, 500),
        events.SessionLost("anthropic", "session-secret"),
        events.SessionReset("Ada"),
        events.LaneHeld(500, text, 1, HoldCause.PROVIDER),
        events.LanePaused(),
        events.LaneResumed(),
        events.SettingsRejected(text),
        events.ProcessorStart("host/1"),
        events.ProcessorStop("host/1"),
    )
    return {fact.type: fact for fact in facts}
