"""The event log as JSON: every fact in full, for those who page instead of listening."""

from typing import Annotated

from fastapi import APIRouter, Query

from tinyagi.api.events import LoggedEvent
from tinyagi.domain.events import RecordedEvent
from tinyagi.server.parameters import Cursor, limit
from tinyagi.server.services import Use

router = APIRouter(tags=["events"])

EventType = Annotated[
    str | None, Query(alias="type", pattern=r"^[a-z][a-z0-9_]{0,63}$", description="Of this type only.")
]


@router.get("/api/events", response_model=list[LoggedEvent])
async def read_events(
    services: Use, after: Cursor = 0, event_type: EventType = None, limit: int = limit(100)
) -> list[LoggedEvent]:
    """List the events beyond `after` in their order. What is live only, such as progress, is not in the log."""
    events = await services.store.events.read_after(after, event_type=event_type, limit=limit)
    return [_logged(event) for event in events]


def _logged(event: RecordedEvent) -> LoggedEvent:
    return LoggedEvent(
        id=event.id,
        type=event.type,
        version=event.version,
        timestamp=event.created_at,
        message_id=event.message_id,
        conversation_id=event.conversation_id,
        conversation_started_at=event.conversation_started_at,
        agent_id=event.agent,
        payload=dict(event.payload),
    )
