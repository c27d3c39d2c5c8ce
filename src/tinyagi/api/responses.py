"""Answers and notices on their way to people, and the messages that agents send on their own account."""

from typing import Annotated

from pydantic import Field, JsonValue

from tinyagi.api.base import Id, Model
from tinyagi.api.texts import Person, Storable, Text


class ResponseRow(Model):
    """A response as it stands in the lists."""

    id: int
    channel: str
    sender: str
    sender_id: str | None
    message: str
    original_message: str
    timestamp: int
    message_id: str
    conversation_id: str | None
    agent: str | None
    files: Annotated[tuple[str, ...], Field(description="Paths of files to send along.")] = ()
    status: str


class PendingResponse(ResponseRow):
    """A response that its channel has to deliver."""

    metadata: Annotated[dict[str, JsonValue], Field(description="For the channel, such as parseMode.")] = Field(
        default_factory=dict
    )
    attempts: Annotated[int, Field(description="Deliveries that have failed so far.")]


class SendResponse(Model):
    """A message to a person that answers nothing."""

    channel: Id
    sender: Person
    message: Annotated[Storable, Field(description="The text; may be empty only when there are files.")]
    sender_id: Annotated[Storable | None, Field(max_length=256)] = None
    agent: Annotated[Id | None, Field(description="Who says it: signed and shaped like an answer of this agent.")] = (
        None
    )
    files: Annotated[
        tuple[Storable, ...], Field(max_length=100, description="Files of the agent's workspace or the files folder.")
    ] = ()


class ResponseSent(Model):
    """It waits for its channel."""

    ok: bool = True
    message_id: str


class DeliveryFailed(Model):
    """A channel could not deliver it."""

    reason: Annotated[Text, Field(max_length=10_000)]


class DeliveryNoted(Model):
    """The failed delivery is written down."""

    ok: bool = True
    retried: Annotated[bool, Field(description="True when it is to be tried again later.")]
