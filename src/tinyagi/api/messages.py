"""Messages sent to agents, and responses delivered to people."""

from typing import Annotated

from pydantic import Field, JsonValue

from tinyagi.api.base import ID, KEY, MAX_INTEGER, Error, Id, Model, PersonName, Storable, Text

LONGEST_DELAY = 366 * 86_400


class SendMessage(Model):
    """A message for an agent or a team; without `agent`, the text decides who gets it."""

    message: Annotated[str, Field(description="The text; may be empty only when there are files.")]
    agent: Annotated[str | None, Field(description="An agent or a team; without one, the text decides.")] = None
    sender: Annotated[str, Field(min_length=1, max_length=256, json_schema_extra=KEY)] = "API"
    sender_id: Annotated[Annotated[str, Field(max_length=256, json_schema_extra=KEY)] | None, Field()] = None
    channel: Annotated[
        str,
        Field(
            pattern=ID,
            description="Where the answer goes; chatroom, schedule, heartbeat, board and internal are reserved.",
        ),
    ] = "api"
    message_id: Annotated[
        Annotated[str, Field(min_length=1, max_length=128, json_schema_extra=KEY)] | None,
        Field(description="Makes a retry safe: the same id is stored once."),
    ] = None
    files: Annotated[tuple[str, ...], Field(max_length=100, description="Paths in the home's files folder.")] = ()
    priority: Annotated[int, Field(ge=-1, le=1_000, description="Higher runs earlier, never within a thread.")] = 0
    delay_seconds: Annotated[float, Field(ge=0, le=LONGEST_DELAY, description="Seconds before it may run.")] = 0
    paired_only: Annotated[
        bool, Field(description="Store it only if its sender is paired on the channel; otherwise 403 with a code.")
    ] = False


class MessageSent(Model):
    """The message is stored durably."""

    ok: bool = True
    message_id: str
    conversation_id: str
    message_ids: Annotated[tuple[str, ...] | None, Field(description="One per agent, when the text names several.")] = (
        None
    )
    warning: Annotated[
        str | None,
        Field(description="Set when the text starts with an unknown name; names the agent that got it instead."),
    ] = None


class SendMessages(Model):
    """Several messages, stored independently of each other."""

    messages: Annotated[tuple[SendMessage, ...], Field(min_length=1, max_length=100)]


class MessageResult(Model):
    """What a call of its own would have answered for this message."""

    status: Annotated[int, Field(description="200: stored durably. 409: stored before.")]
    error: str | None = None
    message_id: str | None = None
    conversation_id: str | None = None
    message_ids: tuple[str, ...] | None = None
    warning: str | None = None
    code: str | None = None
    is_new: bool | None = None
    retry_after: Annotated[int | None, Field(description="Seconds to wait after a 429.")] = None


class MessagesSent(Model):
    """A result for each message, in order."""

    results: tuple[MessageResult, ...]


class DuplicateError(Error):
    """This messageId is stored already; the first message counts."""

    message_id: str


class NotPairedError(Error):
    """The request is not allowed. With `isNew`, its sender may not write on the channel yet and got a code."""

    code: Annotated[str | None, Field(description="Null when too many codes are pending.")] = None
    is_new: Annotated[bool, Field(description="True for the first message: the channel sends the code once.")] = False


class ResponseRow(Model):
    """A response in a list."""

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
    files: Annotated[tuple[str, ...], Field(description="Paths of attached files.")] = ()
    status: str


class PendingResponse(ResponseRow):
    """A response for its channel to deliver."""

    metadata: Annotated[dict[str, JsonValue], Field(description="Hints for the channel, such as parseMode.")] = Field(
        default_factory=dict
    )
    attempts: Annotated[int, Field(description="Failed deliveries so far.")]


class SendResponse(Model):
    """A response to a person that does not answer a message."""

    channel: Id
    sender: PersonName
    message: Annotated[Storable, Field(description="The text; may be empty only when there are files.")]
    sender_id: Annotated[Storable | None, Field(max_length=256)] = None
    agent: Annotated[Id | None, Field(description="The author: signed and formatted like this agent's answers.")] = None
    files: Annotated[
        tuple[Storable, ...], Field(max_length=100, description="Paths in the agent's workspace or the files folder.")
    ] = ()


class ResponseSent(Model):
    """The response waits for its channel."""

    ok: bool = True
    message_id: str


class Delivered(Model):
    """Responses that a channel has delivered."""

    ids: Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_INTEGER)], ...], Field(max_length=1_000)]


class DeliveryFailed(Model):
    """A channel could not deliver a response."""

    reason: Annotated[Text, Field(max_length=10_000)]
    is_final: Annotated[bool, Field(description="True when another try cannot succeed.")] = False
    retry_after_seconds: Annotated[
        Annotated[float, Field(ge=0, le=LONGEST_DELAY)] | None, Field(description="The platform's own wait.")
    ] = None


class DeliveryNoted(Model):
    """The failed delivery is recorded."""

    ok: bool = True
    retried: Annotated[bool, Field(description="True when it will be retried later.")]
    retry_at: Annotated[int | None, Field(description="When, in ms.")] = None
