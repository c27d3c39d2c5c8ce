"""A channel without a platform: a test writes messages and reads deliveries, and makes calls fail."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tinyagi.channels.port import Attachment, ChannelMessage, DeliveryError, FilePart, Manifest, Part, Receive
from tinyagi.domain.chats import Chat

MANIFEST: Final = Manifest(
    id="telegram",
    name="Memory",
    settings=(),
    steps=(),
    text_limit=200,
    receive_limit=1_000,
    send_limit=1_000,
    typing_seconds=0.05,
    can_edit=True,
)


@dataclass(frozen=True, slots=True)
class Sent:
    chat: str
    text: str
    key: str
    file: str = ""
    content: bytes = b""
    reply_to: str | None = None


@dataclass
class MemoryChannel:
    """Delivers into `sent`; `failures` are raised by the next deliveries, None lets one pass."""

    manifest: Manifest = MANIFEST
    sent: list[Sent] = field(default_factory=list)
    typing: list[str] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    failures: list[DeliveryError | None] = field(default_factory=list)
    after_send: Callable[[Sent], None] = lambda _: None
    closed: bool = False
    _incoming: "asyncio.Queue[tuple[ChannelMessage, asyncio.Future[None]]]" = field(default_factory=asyncio.Queue)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _count: int = 0

    async def write(
        self,
        text: str,
        *,
        person: str = "7",
        place: str = "",
        id: str | None = None,  # noqa: A002
        files: tuple[tuple[str, bytes], ...] = (),
        is_from_bot: bool = False,
        name: str = "Ada",
    ) -> None:
        """Hand a message to the relay and wait until it is confirmed."""
        self._count += 1
        attachments = tuple(Attachment(name, None, partial(_chunks, content)) for name, content in files)
        message = ChannelMessage(
            id or f"{person}.{self._count}", Chat(person, place), name, text, attachments, is_from_bot
        )
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._incoming.put_nowait((message, confirmed))
        await confirmed

    async def until(self, count: int) -> list[Sent]:
        """Wait until so many parts were delivered."""
        while len(self.sent) < count:
            self._changed.clear()
            await self._changed.wait()
        return self.sent

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.sent]

    async def connect(self) -> str:
        return "@memory"

    async def receive(self, receive: Receive) -> None:
        while True:
            message, confirmed = await self._incoming.get()
            await receive(message)
            confirmed.set_result(None)

    async def send(self, part: Part) -> str:
        return self._deliver(Sent(part.chat.address, part.text, part.key, reply_to=part.reply_to))

    async def send_file(self, part: FilePart) -> str:
        content = await asyncio.to_thread(part.path.read_bytes)
        return self._deliver(Sent(part.chat.address, "", part.key, part.name, content, part.reply_to))

    def _deliver(self, sent: Sent) -> str:
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        self.sent.append(sent)
        self._changed.set()
        self.after_send(sent)
        return str(len(self.sent))

    async def show_typing(self, chat: Chat) -> None:
        self.typing.append(chat.address)
        self._changed.set()

    async def edit(self, chat: Chat, sent: str, text: str) -> None:
        self.edits.append(text)

    async def remove(self, chat: Chat, sent: str) -> None:
        self.removed.append(sent)

    async def close(self) -> None:
        self.closed = True


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 256):
        yield content[start : start + 256]
