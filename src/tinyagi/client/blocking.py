"""`Client`: the client for programs that do not use asyncio."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from types import TracebackType
from typing import Self, TypeVar

from tinyagi.api.daemon import DaemonStatus
from tinyagi.api.messages import MessageSent, PendingResponse, SendMessage
from tinyagi.client.client import AsyncClient
from tinyagi.client.conversation import ConversationResult
from tinyagi.client.event_stream import StreamEvent

T = TypeVar("T")


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
