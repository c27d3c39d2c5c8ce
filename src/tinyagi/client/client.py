"""The typed client of the daemon's API: `AsyncClient`, and `Client` for programs that do not use asyncio."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Final, Self, TypeVar

from tinyagi.api.daemon import AuditLine, DaemonStatus, LogFormat, LoggedEvent, LogLines, PluginLine
from tinyagi.api.messages import MessageResult, MessageSent, MessagesSent, PendingResponse, SendMessage, SendMessages
from tinyagi.client.address import configured_address
from tinyagi.client.calls import (
    AgentCalls,
    AnalyticsCalls,
    BoardCalls,
    ConversationCalls,
    DaemonCalls,
    ProviderCalls,
    QueueCalls,
    ScheduleCalls,
    SettingsCalls,
    TeamCalls,
)
from tinyagi.client.channel_calls import FileCalls, PairingCalls, RelayCalls, ResponseCalls
from tinyagi.client.conversation import Audience, ConversationResult, acknowledge_answers, converse
from tinyagi.client.errors import ClientError, ConflictError, ConnectionLost, NoAnswer, NotPaired
from tinyagi.client.event_stream import Pauses, StreamEvent, follow
from tinyagi.client.transport import Transport, error_of
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import find_home

T = TypeVar("T")

SEND_ATTEMPTS: Final = 3
_LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def new_message_id(channel: str) -> str:
    """Return a random message id."""
    return f"{channel}_{''.join(secrets.choice(_LETTERS) for _ in range(8))}"


class AsyncClient:
    """One daemon: at `url`, or else at the address that the environment and the home's settings name.

    Calls are grouped like the API: `client.queue.status()`, `client.agents.put(…)`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        client_name: str = "",
        new_id: Callable[[str], str] = new_message_id,
    ) -> None:
        if url is None:
            configured = configured_address(find_home(), snapshot())
            url, token = configured.url, token or configured.token
        self._transport = transport = Transport(url, token, client_name)
        self._new_id = new_id
        self.agents = AgentCalls(transport)
        self.analytics = AnalyticsCalls(transport)
        self.board = BoardCalls(transport)
        self.conversations = ConversationCalls(transport)
        self.files = FileCalls(transport)
        self.pairing = PairingCalls(transport)
        self.providers = ProviderCalls(transport)
        self.queue = QueueCalls(transport)
        self.relays = RelayCalls(transport)
        self.responses = ResponseCalls(transport)
        self.schedules = ScheduleCalls(transport)
        self.services = DaemonCalls(transport)
        self.settings = SettingsCalls(transport)
        self.teams = TeamCalls(transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    @property
    def url(self) -> str:
        return self._transport.url

    async def status(self) -> DaemonStatus:
        return await self._transport.get("/api/status", DaemonStatus)

    async def send(self, message: SendMessage | str) -> MessageSent:
        """Store a message and return its ids; a text may start with the agent or team: "@coder …".

        Retries after a lost connection. The message has an id, so it is stored once.
        """
        message = SendMessage(message=message) if isinstance(message, str) else message
        message_id = message.message_id or self._new_id(message.channel)
        identified = message.model_copy(update={"message_id": message_id})
        for attempt in range(1, SEND_ATTEMPTS + 1):
            try:
                return await self._transport.post("/api/message", MessageSent, identified)
            except ConnectionLost:
                if attempt == SEND_ATTEMPTS:
                    raise
            except ConflictError:
                # An earlier attempt stored the message; only its answer was lost.
                if attempt == 1:
                    raise
                break
        return MessageSent(message_id=message_id, conversation_id=message_id)

    async def send_all(self, messages: Sequence[SendMessage]) -> list[MessageSent | ClientError]:
        """Store up to 100 messages with ids by one call; return for each its ids, or why it was refused."""
        answer = await self._transport.post("/api/messages", MessagesSent, SendMessages(messages=tuple(messages)))
        return [_sent_or_error(result) for result in answer.results]

    async def ask(self, message: SendMessage | str, *, timeout: float | None = None) -> ConversationResult:  # noqa: ASYNC109
        """Send a message, wait until its conversation is done, and return the answers.

        The answers count as delivered. Raise NoAnswer when the message died, was stopped or is held, and TimeoutError
        after `timeout` seconds; the message stays in the queue.
        """
        conversation = ConversationResult()
        request = SendMessage(message=message) if isinstance(message, str) else message
        try:
            await converse(self, request, conversation, Audience(), timeout)
        except TimeoutError:
            raise TimeoutError(_timeout_message(conversation.id, timeout or 0)) from None
        await acknowledge_answers(self, conversation, request.channel)
        if conversation.status == "held":
            raise NoAnswer(conversation.id, f"{next(iter(conversation.holds.values())).sentence}.")
        if not conversation.answers and conversation.ends:
            raise NoAnswer(conversation.id, conversation.ends[-1].reason)
        return conversation

    def events(
        self,
        *,
        after: int | None = None,
        types: Iterable[str] = (),
        agent: str | None = None,
        conversation: str | None = None,
        patience: timedelta | None = None,
        pauses: Pauses | None = None,
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield events as they happen, starting with `connected`; with `after`, first those in the log after that id.

        Reconnects and continues after the last event. Raises only when the first connection fails, when the daemon
        refuses, or when it stays unreachable for longer than `patience`. Close it with `contextlib.aclosing`.
        """
        query = {
            "names": "canonical",
            "types": ",".join(types) or None,
            "agent": agent,
            "conversation": conversation,
        }
        return follow(self._transport, query, after=after, patience=patience, pauses=pauses or Pauses())

    async def event_log(
        self,
        *,
        after: int | None = None,
        limit: int | None = None,
        type: str | None = None,  # noqa: A002 - the API's name
    ) -> list[LoggedEvent]:
        """Read the event log after an id, with texts in full."""
        return await self._transport.get("/api/events", list[LoggedEvent], after=after, limit=limit, type=type)

    async def logs(
        self,
        *,
        source: str | None = None,
        limit: int | None = None,
        format: LogFormat | None = None,  # noqa: A002 - the API's name
    ) -> LogLines:
        """Read the last log lines; `source` is queue, daemon, the id of a channel, or all."""
        return await self._transport.get("/api/logs", LogLines, source=source, limit=limit, format=format)

    async def plugins(self) -> list[PluginLine]:
        """List the plugins that the daemon found, with their errors."""
        return await self._transport.get("/api/plugins", list[PluginLine])

    async def audit(self, *, before: int | None = None, limit: int | None = None) -> list[AuditLine]:
        """List administrative actions, newest first."""
        return await self._transport.get("/api/audit", list[AuditLine], before=before, limit=limit)


def _sent_or_error(result: MessageResult) -> MessageSent | ClientError:
    if result.status == 200:
        fields = result.model_dump(include={"message_id", "conversation_id", "message_ids", "warning"})
        return MessageSent(**fields)
    if result.is_new is not None:
        return NotPaired(result.error or "", result.code, is_new=result.is_new)
    return error_of(result.status, result.error or "", result.retry_after)


def _timeout_message(conversation: str, seconds: float) -> str:
    if not conversation:
        return f"The daemon did not accept the message within {seconds:g} s. Check that it runs: tinyagi status"
    return f"Conversation {conversation} is still running after {seconds:g} s. Follow it: tinyagi trace {conversation}"


class Client:
    """One daemon: at `url`, or else at the address that the environment and the home's settings name.

    Each call blocks until its answer. `call` makes any call of `AsyncClient`. Use one client per thread.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, client_name: str = "") -> None:
        self._client = AsyncClient(url, token, client_name=client_name)
        self._runner = asyncio.Runner()
        self._is_closed = False
        self._streams: set[AsyncGenerator[StreamEvent, None]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; closing twice is not an error."""
        if self._is_closed:
            return
        self._is_closed = True
        with self._runner:
            for events in tuple(self._streams):
                self._end(events)
            self.call(lambda client: client.close())

    @property
    def url(self) -> str:
        return self._client.url

    def call(self, request: Callable[[AsyncClient], Awaitable[T]]) -> T:
        """Make any call of the asynchronous client: `client.call(lambda api: api.queue.status())`."""

        async def answer() -> T:
            return await request(self._client)

        return self._runner.run(answer())

    def send(self, message: SendMessage | str) -> MessageSent:
        """Store a message and return its ids; a text may start with the agent or team: "@coder …"."""
        return self.call(lambda client: client.send(message))

    def ask(self, message: SendMessage | str, *, timeout: float | None = None) -> ConversationResult:
        """Send a message and wait for all answers; raise NoAnswer or TimeoutError, see `AsyncClient.ask`."""
        return self.call(lambda client: client.ask(message, timeout=timeout))

    def events(
        self,
        *,
        after: int | None = None,
        types: Iterable[str] = (),
        agent: str | None = None,
        conversation: str | None = None,
    ) -> Iterator[StreamEvent]:
        """Yield events as they happen, without end, starting with `connected`; see `AsyncClient.events`."""
        events = self._client.events(after=after, types=types, agent=agent, conversation=conversation)
        self._streams.add(events)
        try:
            while True:
                yield self.call(lambda _: anext(events))
        finally:
            self._end(events)

    def _end(self, events: AsyncGenerator[StreamEvent, None]) -> None:
        """Close a stream once: the caller may leave it before or after the client is closed."""
        if events in self._streams:
            self._streams.discard(events)
            self.call(lambda _: events.aclose())

    def pending(self, channel: str, *, limit: int | None = None) -> list[PendingResponse]:
        """List the responses that a channel should deliver, oldest first; see `acknowledge`."""
        return self.call(lambda client: client.responses.pending(channel, limit=limit))

    def acknowledge(self, response: int) -> None:
        """Mark a response as delivered, so that it is not listed again."""
        self.call(lambda client: client.responses.ack(response))

    def status(self) -> DaemonStatus:
        return self.call(lambda client: client.status())
