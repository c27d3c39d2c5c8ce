"""The daemon as a typed, asynchronous object: everything that is not in its process uses this."""

import secrets
from collections.abc import AsyncGenerator, Callable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

from tinyagi.api.events import LoggedEvent
from tinyagi.api.logs import AuditLine, LogLines
from tinyagi.api.messages import MessageSent, SendMessage
from tinyagi.api.status import Status
from tinyagi.client.agents import Agents
from tinyagi.client.analytics import Analytics
from tinyagi.client.board import Board
from tinyagi.client.conversations import Conversations
from tinyagi.client.errors import ConflictError, ConnectionLost
from tinyagi.client.pairing import Pairing
from tinyagi.client.queue import Queue
from tinyagi.client.responses import Responses
from tinyagi.client.schedules import Schedules
from tinyagi.client.services import Services
from tinyagi.client.settings import Providers, Settings
from tinyagi.client.stream import Pauses, StreamEvent, follow
from tinyagi.client.teams import Teams
from tinyagi.client.transport import Transport

SEND_ATTEMPTS: Final = 3
_LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def new_message_id(channel: str) -> str:
    """An id that nobody else makes."""
    return f"{channel}_{''.join(secrets.choice(_LETTERS) for _ in range(8))}"


class Client:
    """One daemon. Calls are grouped as the API is: `client.queue.status()`, `client.agents.put(…)`."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        client_name: str = "",
        new_id: Callable[[str], str] = new_message_id,
    ) -> None:
        self._transport = transport = Transport(url, token, client_name)
        self._new_id = new_id
        self.agents = Agents(transport)
        self.analytics = Analytics(transport)
        self.board = Board(transport)
        self.conversations = Conversations(transport)
        self.pairing = Pairing(transport)
        self.providers = Providers(transport)
        self.queue = Queue(transport)
        self.responses = Responses(transport)
        self.schedules = Schedules(transport)
        self.services = Services(transport)
        self.settings = Settings(transport)
        self.teams = Teams(transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.close()

    @property
    def url(self) -> str:
        return self._transport.url

    async def status(self) -> Status:
        return await self._transport.get("/api/status", Status)

    async def send(self, message: SendMessage) -> MessageSent:
        """Send a message once, however often the connection breaks: it carries an id, given or made here."""
        message_id = message.message_id or self._new_id(message.channel)
        letter = message.model_copy(update={"message_id": message_id})
        for attempt in range(1, SEND_ATTEMPTS + 1):
            try:
                return await self._transport.post("/api/message", MessageSent, letter)
            except ConnectionLost:
                if attempt == SEND_ATTEMPTS:
                    raise
            except ConflictError:
                # The answer to an earlier attempt was lost, not the message.
                if attempt == 1:
                    raise
                break
        return MessageSent(message_id=message_id, conversation_id=message_id)

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
        """Events as they happen, beginning with `connected`; with `after`, first those of the log since that id.

        Reconnects by itself and goes on where it was; raises only when the first connection fails, when the daemon
        refuses, or when it has been away for longer than `patience`. Close it with `contextlib.aclosing`.
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
        type: str | None = None,  # noqa: A002 - its name
    ) -> list[LoggedEvent]:
        """The log from an id on, with texts in full."""
        return await self._transport.get("/api/events", list[LoggedEvent], after=after, limit=limit, type=type)

    async def logs(self, *, source: str | None = None, limit: int | None = None) -> LogLines:
        """`source` is queue, daemon, the id of a channel, or all."""
        return await self._transport.get("/api/logs", LogLines, source=source, limit=limit)

    async def audit(self, *, before: int | None = None, limit: int | None = None) -> list[AuditLine]:
        """Who changed what, newest first."""
        return await self._transport.get("/api/audit", list[AuditLine], before=before, limit=limit)
