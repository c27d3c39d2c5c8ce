"""Takes in what people write: pairing first, then commands, then files and the message itself, each stored once."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from secrets import token_hex
from typing import Final, TypeVar
from zlib import crc32

from tinyagi.api.messages import SendMessage
from tinyagi.channels import commands
from tinyagi.channels.commands import Commands
from tinyagi.channels.port import Attachment, Channel, ChannelError, ChannelMessage, DeliveryError, Part
from tinyagi.channels.submission import Submission
from tinyagi.client.client import AsyncClient
from tinyagi.client.errors import ClientError, ConflictError, NotPaired, Rejected, TooManyRequests
from tinyagi.domain.chats import Chat
from tinyagi.domain.texts import one_line

T = TypeVar("T")

log = logging.getLogger(__name__)

LONGEST_NAME: Final = 200
MAX_ATTACHMENTS: Final = 20
MAX_BOT_MESSAGES: Final = 10
"""Messages of other bots in a row, in one place: two bots that answer each other would never end."""
_PLACES: Final = 1_000
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0


class FileTooLarge(Exception):
    """An attachment is larger than the platform or the daemon accepts; the message says so to the sender."""


class Reception:
    """Receives the messages of one channel."""

    def __init__(
        self, channel: Channel, client: AsyncClient, downloads: Path, stored: Callable[[Chat], None] = lambda _: None
    ) -> None:
        """`stored` is called with the chat after each stored message."""
        self._channel = channel
        self._client = client
        self._downloads = downloads
        self._stored = stored
        self._commands = Commands(client, channel.manifest.id)
        self._submission = Submission(client)
        self._bots: OrderedDict[str, int] = OrderedDict()

    async def run(self) -> None:
        """Work for `receive` until cancelled."""
        await self._submission.run()

    async def receive(self, message: ChannelMessage) -> None:
        """Store a message or answer it; waits as long as the daemon is away, because the platform then repeats it."""
        if not self._may_continue(message):
            return
        command = None if message.attachments else commands.parse(message.text)
        # A plain message is checked and stored by one call.
        if (command is not None or message.attachments) and not await self._is_paired(message):
            return
        if command is not None:
            await self._say(message, await self._commands.run(command, message.chat))
            return
        await self._submit(message)

    def _may_continue(self, message: ChannelMessage) -> bool:
        """False for a bot's message after too many others in the same place without a person's."""
        place = message.chat.place or message.chat.person
        if not message.is_from_bot:
            self._bots.pop(place, None)
            return True
        count = self._bots.pop(place, 0) + 1
        self._bots[place] = count
        if len(self._bots) > _PLACES:
            self._bots.popitem(last=False)
        if count == MAX_BOT_MESSAGES + 1:
            log.warning("%d messages of bots in a row in %s: ignoring bots until a person writes", count, place)
        return count <= MAX_BOT_MESSAGES

    async def _is_paired(self, message: ChannelMessage) -> bool:
        """True when the person may write; otherwise they get their code."""
        checked = await self._persist(
            lambda: self._client.pairing.check(self._channel.manifest.id, message.chat.person, _name(message))
        )
        if not checked.approved:
            await self._introduce(message, checked.code, is_new=checked.is_new)
        return checked.approved

    async def _introduce(self, message: ChannelMessage, code: str | None, *, is_new: bool) -> None:
        """Send an unknown person their code, once. Nothing of the message is kept."""
        if code is None or not is_new or message.is_from_bot:
            return
        await self._say(
            message,
            f"I do not know you yet. Your code is {code}. The owner allows you to write with: "
            f"tinyagi pairing approve {code}",
        )

    async def _submit(self, message: ChannelMessage) -> None:
        files, refused = await self._take_files(message)
        if refused:
            await self._say(message, "\n".join(refused))
        if not message.text.strip() and not files:
            return
        request = SendMessage(
            message=message.text,
            channel=self._channel.manifest.id,
            sender=_name(message),
            sender_id=message.chat.address,
            message_id=f"{self._channel.manifest.id}_{message.id}",
            files=tuple(files),
            paired_only=True,
        )
        try:
            sent = await self._persist(lambda: self._submission.send(request))
        except ConflictError:
            # The platform repeated a message that is stored already.
            return
        except NotPaired as error:
            await self._introduce(message, error.code, is_new=error.is_new)
            return
        except Rejected as error:
            await self._say(message, f"This message was not accepted: {error}")
            return
        self._stored(message.chat)
        if sent.warning is not None:
            await self._say(message, sent.warning)

    async def _take_files(self, message: ChannelMessage) -> tuple[list[str], list[str]]:
        """Hand the attachments to the daemon; return their paths, and a sentence for each refused one."""
        paths: list[str] = []
        refused: list[str] = []
        for attachment in message.attachments[:MAX_ATTACHMENTS]:
            try:
                paths.append(await self._take_file(attachment))
            except (FileTooLarge, ChannelError, Rejected) as error:
                refused.append(f"{one_line(attachment.name, LONGEST_NAME)} was not taken: {error}")
        if len(message.attachments) > MAX_ATTACHMENTS:
            refused.append(f"A message takes at most {MAX_ATTACHMENTS} files; the others were left out.")
        return paths, refused

    async def _take_file(self, attachment: Attachment) -> str:
        limit = self._channel.manifest.receive_limit
        if attachment.size is not None and attachment.size > limit:
            raise FileTooLarge(_too_large(attachment.size, limit))
        copy = self._downloads / token_hex(8)
        try:
            await self._download(attachment, copy, limit)
            stored = await self._persist(
                lambda: self._client.files.store(copy, attachment.name[:LONGEST_NAME] or "file")
            )
        finally:
            await asyncio.to_thread(copy.unlink, missing_ok=True)
        return stored.path

    async def _download(self, attachment: Attachment, copy: Path, limit: int) -> None:
        size = 0
        with await asyncio.to_thread(copy.open, "xb") as file:
            async for chunk in attachment.chunks():
                size += len(chunk)
                if size > limit:
                    raise FileTooLarge(_too_large(size, limit))
                await asyncio.to_thread(file.write, chunk)

    async def _say(self, message: ChannelMessage, text: str) -> None:
        """Answer past the queue: codes, commands and refusals. They are not worth a retry."""
        try:
            await self._channel.send(Part(message.chat, text, f"say-{message.id}-{crc32(text.encode()):x}", message.id))
        except DeliveryError as error:
            log.warning("could not answer %s: %s", message.id, one_line(str(error)))

    async def _persist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call while the daemon is away or busy; raise its refusals."""
        pause = _FIRST_PAUSE
        while True:
            try:
                return await call()
            except (ConflictError, Rejected):
                raise
            except TooManyRequests as error:
                await asyncio.sleep(error.retry_after)
            except ClientError as error:
                log.debug("waiting for the daemon: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)


def _name(message: ChannelMessage) -> str:
    return one_line(message.name, LONGEST_NAME) or "someone"


def _too_large(size: int, limit: int) -> str:
    return f"it has {size / 1_000_000:.1f} MB, and at most {limit / 1_000_000:g} MB can be received here."
