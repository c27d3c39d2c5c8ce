"""Responses on their way to people: answers, notices and proactive messages, acknowledgement and failed deliveries."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any, Final

from tinyagi.domain.errors import NotFound
from tinyagi.domain.events import ResponseAcked, ResponseFailed, ResponseReady
from tinyagi.domain.ids import AgentId, MessageId
from tinyagi.domain.instants import millis
from tinyagi.domain.messages import Message
from tinyagi.domain.responses import UNDELIVERED_CHANNELS, NewResponse, Response, ResponseStatus, paths_in
from tinyagi.domain.retry import RetryPolicy
from tinyagi.store.readers import Readers
from tinyagi.store.transaction import Transaction, encode_json
from tinyagi.store.writer import Writer

COLUMNS: Final = (
    *("id", "message_id", "channel", "sender", "sender_id", "message", "original_message", "agent", "files"),
    *("metadata", "status", "conversation_id", "seq", "created_at", "acked_at", "last_event_id"),
)
"""Parameters of `insert_response`; the other columns of a new response have their defaults."""
row_of = itemgetter(*map(Response._fields.index, COLUMNS))

NO_WAIT: Final = timedelta()
PARK_SLICE: Final = 1000
UNPARK_SLICE: Final = 100
"""At least one page of a channel; each delivery unparks the next ones."""


class ResponseStore:
    """Answers on their way to people."""

    def __init__(self, writer: Writer, readers: Readers, policy: RetryPolicy, clock: Callable[[], int]) -> None:
        self._writer = writer
        self._readers = readers
        self._policy = policy
        self._clock = clock

    async def send(self, response: NewResponse) -> Response:
        """Store a response that answers no message."""
        return await self._writer.run(send, response)

    async def pending(self, channel: str, *, limit: int = 20) -> tuple[Response, ...]:
        """Oldest first; a failing response blocks the later ones of its chat."""
        while True:
            page = {"channel": channel, "now": self._clock(), "limit": limit}
            rows = await self._readers.page("pending_responses", page)
            due = [row for row in rows if not row[-1]]
            # Park responses behind a failed delivery once, so that they are not read again until their chat continues.
            if len(due) == len(rows) or not await self._writer.run(park_responses, channel):
                return tuple([_response(row[:-1]) for row in due])

    async def recent(self, *, limit: int = 20, agent: AgentId | None = None) -> tuple[Response, ...]:
        """Newest first, of all agents or of one."""
        return tuple(map(_response, await self._readers.page("recent_responses", {"limit": limit, "agent": agent})))

    async def attached(self) -> frozenset[str]:
        """Paths of all files that stored responses refer to."""
        rows = await self._readers.rows("attached_files", ())
        return frozenset(path for (text,) in rows for path in paths_in(text))

    async def ack(self, response: int) -> None:
        """Mark it as delivered; a repeated ack changes nothing. Raise NotFound when it is unknown."""
        await self._writer.run(ack, response)

    async def fail(
        self,
        response: int,
        reason: str,
        *,
        policy: RetryPolicy | None = None,
        is_final: bool = False,
        wait: timedelta = NO_WAIT,
    ) -> int | None:
        """Record a failed delivery; return when it is retried, after `wait` at the earliest, or None for never."""
        return await self._writer.run(
            fail_delivery, response, reason, policy or self._policy, is_final=is_final, wait=wait
        )


def _response(row: tuple[Any, ...]) -> Response:
    response = Response._make(row)
    return response._replace(status=ResponseStatus(response.status))


def respond(
    tx: Transaction, message: Message, text: str, files: Sequence[str], metadata: Mapping[str, str], seq: int = 0
) -> Response:
    has_no_reader = message.channel in UNDELIVERED_CHANNELS
    response = Response(
        id=tx.next_id("responses"),
        message_id=message.message_id,
        channel=message.channel,
        sender=message.sender,
        sender_id=message.sender_id,
        message=text,
        original_message=message.message,
        agent=message.agent,
        files=encode_json(files) if files else None,
        metadata=encode_json(metadata) if metadata else None,
        status=ResponseStatus.ACKED if has_no_reader else ResponseStatus.PENDING,
        conversation_id=message.conversation_id,
        seq=seq,
        attempts=0,
        last_error=None,
        available_at=0,
        created_at=tx.now,
        acked_at=tx.now if has_no_reader else None,
        last_event_id=tx.next_event_id(),
    )
    tx.record(ResponseReady(response._asdict()), message)
    return response


def notice(tx: Transaction, message: Message, text: str) -> Response:
    """A notice to the person about their message, in addition to its answer."""
    seq = tx.connection.execute(tx.sql["next_notice"], (message.message_id, message.agent)).get
    return respond(tx, message, text, (), {}, seq)


def send(tx: Transaction, new: NewResponse) -> Response:
    response = Response(
        id=tx.next_id("responses"),
        message_id=MessageId(tx.new_id("proactive")),
        channel=new.channel,
        sender=new.sender,
        sender_id=new.sender_id,
        message=new.message,
        original_message="",
        agent=new.agent,
        files=encode_json(new.files) if new.files else None,
        metadata=encode_json(new.metadata) if new.metadata else None,
        status=ResponseStatus.PENDING,
        conversation_id=None,
        seq=0,
        attempts=0,
        last_error=None,
        available_at=0,
        created_at=tx.now,
        acked_at=None,
        last_event_id=tx.next_event_id(),
    )
    tx.record_alone(ResponseReady(response._asdict()), new.agent, response.message_id)
    tx.connection.execute(tx.sql["insert_response"], row_of(response))
    return response


def ack(tx: Transaction, response_id: int) -> None:
    response = _find_deliverable(tx, response_id)
    if response.status is ResponseStatus.ACKED:
        return
    event_id = tx.record_alone(ResponseAcked(response_id), response.agent, response.message_id)
    tx.connection.execute(tx.sql["ack_response"], (response_id, tx.now, event_id))
    _unpark(tx, response)


def fail_delivery(
    tx: Transaction,
    response_id: int,
    reason: str,
    policy: RetryPolicy,
    *,
    is_final: bool = False,
    wait: timedelta = NO_WAIT,
) -> int | None:
    """Returns the instant of the next try; None when the response will not be retried."""
    response = _find_deliverable(tx, response_id)
    if response.status is ResponseStatus.ACKED:
        return None
    attempts = response.attempts + 1
    at = None if is_final else policy.deliver_again_at(attempts, tx.now, tx.dice.random())
    if at is not None:
        at = max(at, tx.now + millis(wait))
    record_failed_delivery(tx, response, attempts, reason, at)
    return at


def record_failed_delivery(tx: Transaction, response: Response, attempts: int, reason: str, at: int | None) -> None:
    """Record a failed delivery; the next try is at `at`, None for no more tries."""
    status = ResponseStatus.FAILED if at is None else ResponseStatus.PENDING
    event = ResponseFailed(response.id, attempts, reason, at or 0, at is None)
    event_id = tx.record_alone(event, response.agent, response.message_id)
    tx.change("fail_response", (response.id, status, attempts, reason, at or 0, event_id))
    if at is None:
        _unpark(tx, response)


def _find_deliverable(tx: Transaction, response_id: int) -> Response:
    """The response, pending or acked: a channel may repeat its ack after a crash."""
    row = tx.connection.execute(tx.sql["response_by_id"], (response_id,)).fetchone()
    response = None if row is None else Response._make(row)
    if response is None or response.status == ResponseStatus.FAILED:
        raise NotFound(f"There is no response {response_id} to deliver.")
    return response._replace(status=ResponseStatus(response.status))


def park_responses(tx: Transaction, channel: str) -> int:
    """Park a slice of the channel's responses that failed deliveries block; returns their number."""
    return tx.count("park_responses", {"channel": channel, "now": tx.now, "limit": PARK_SLICE})


def _unpark(tx: Transaction, response: Response) -> None:
    """Release the next responses of the chat that this one blocked."""
    chat = (response.channel, response.sender_id, response.sender)
    tx.connection.execute(tx.sql["unpark_responses"], (*chat, UNPARK_SLICE))
