"""The event log as JSON."""

from typing import Annotated

from pydantic import Field, JsonValue

from tinyagi.api.base import Model


class LoggedEvent(Model):
    """A fact, with its texts in full."""

    id: Annotated[int, Field(description="Its place in the log; `after` takes it.")]
    type: str
    version: Annotated[int, Field(description="Of the shape of its payload.")]
    timestamp: int
    message_id: str | None
    conversation_id: str | None
    conversation_started_at: int | None
    agent_id: str | None
    payload: Annotated[dict[str, JsonValue], Field(description="Its own fields, as the log holds them.")]
