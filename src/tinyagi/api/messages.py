"""Sending a message."""

from typing import Annotated

from pydantic import Field

from tinyagi.api.base import Error, Model

LONGEST_DELAY = 366 * 86_400


class SendMessage(Model):
    """A message for an agent or a team; without `agent`, its text decides who gets it."""

    message: Annotated[str, Field(description="The text; may be empty only when there are files.")]
    agent: Annotated[str | None, Field(description="An agent or a team; without one, the text decides.")] = None
    sender: Annotated[str, Field(min_length=1, max_length=256)] = "API"
    sender_id: Annotated[str | None, Field(max_length=256)] = None
    channel: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$",
            description="Where the answer goes; chatroom, schedule, heartbeat, board and internal are reserved.",
        ),
    ] = "api"
    message_id: Annotated[
        str | None,
        Field(min_length=1, max_length=128, description="Makes a repeat harmless: the same id is stored once."),
    ] = None
    files: Annotated[tuple[str, ...], Field(max_length=100, description="Paths below the home's files folder.")] = ()
    priority: Annotated[int, Field(ge=-1, le=1_000, description="Higher runs earlier, never within a thread.")] = 0
    delay_seconds: Annotated[float, Field(ge=0, le=LONGEST_DELAY, description="Not to be run before.")] = 0


class MessageSent(Model):
    """It is stored durably."""

    ok: bool = True
    message_id: str
    conversation_id: str
    message_ids: Annotated[tuple[str, ...] | None, Field(description="One per agent, when the text names several.")] = (
        None
    )


class DuplicateError(Error):
    """This messageId is stored already; the first message counts."""

    message_id: str
