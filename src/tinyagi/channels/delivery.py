"""Delivers the responses of a channel: in order per chat, chats in parallel, acknowledged after their last part."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Final

from tinyagi.api.messages import PendingResponse
from tinyagi.channels.journal import DeliveryJournal
from tinyagi.channels.port import Channel, DeliveryError, FilePart, Part
from tinyagi.channels.splitting import split
from tinyagi.client.client import AsyncClient
from tinyagi.client.errors import ClientError, NotFoundError, Rejected
from tinyagi.domain.chats import Chat
from tinyagi.domain.texts import one_line
from tinyagi.system.clock import wall_clock

log = logging.getLogger(__name__)

PAGE: Final = 200
SENDS_AT_ONCE: Final = 4
"""No platform takes more messages a second than this allows, and an HTTP client is slow with many connections."""
SHORTEST_PAUSE: Final = 0.02
"""Seconds between two looks for responses: in a burst, one look takes many."""
LONGEST_WAIT: Final = 60.0
"""Seconds of a platform's own wait that the relay sits out; a longer one counts as a failed delivery."""
LAST_SEND: Final = 5.0
"""Seconds that a stopping relay gives the delivery in hand."""
RETRY_SECONDS: Final = 5.0
"""Between looks for responses; events and due retries wake the relay earlier."""
_LATER: Final = 0.01
"""Seconds after which an instant has surely passed for the daemon, too."""


@dataclass(frozen=True, slots=True)
class _FileOf:
    path: str
    key: str

    @property
    def name(self) -> str:
        return Path(self.path).name or "file"


class Delivery:
    """Delivers until cancelled. A response is acknowledged after its last part; the journal knows the earlier parts."""

    def __init__(
        self,
        channel: Channel,
        client: AsyncClient,
        journal: DeliveryJournal,
        downloads: Path,
        delivered: Callable[[Chat], None] = lambda _: None,
    ) -> None:
        """`delivered` is called with the chat after each acknowledged response."""
        self._channel = channel
        self._client = client
        self._journal = journal
        self._downloads = downloads
        self._delivered = delivered
        self._news = asyncio.Event()
        self._sends = asyncio.Semaphore(SENDS_AT_ONCE)
        self._deliveries = asyncio.Event()
        self._unacknowledged: dict[int, asyncio.Future[bool]] = {}
        self._ended: set[int] = set()
        self._held_chats: set[str] = set()
        self._chats: dict[str, list[PendingResponse]] = {}
        """Responses in hand by chat; a chat is listed while its task works."""

    def wake(self) -> None:
        """Look for responses now."""
        self._news.set()

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._acknowledge_all())
            while True:
                self._news.clear()
                for chat in await self._fetch():
                    tasks.create_task(self._deliver_chat(chat))
                await asyncio.sleep(SHORTEST_PAUSE)
                with suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_SECONDS):
                        await self._news.wait()

    async def _fetch(self) -> list[str]:
        """Take the responses that are due; return the chats that have no task yet."""
        # What ends during the call may still be in its answer, which is older by then.
        self._ended.clear()
        self._held_chats.clear()
        try:
            pending = await self._client.responses.pending(self._channel.manifest.id, limit=PAGE)
        except ClientError as error:
            log.debug("cannot fetch responses: %s", error)
            return []
        in_hand = {response.id for responses in self._chats.values() for response in responses} | self._ended
        new_chats = []
        for response in pending:
            address = response.sender_id or response.sender
            if response.id in in_hand or address in self._held_chats:
                continue
            if address not in self._chats:
                self._chats[address] = []
                new_chats.append(address)
            self._chats[address].append(response)
        return new_chats

    async def _deliver_chat(self, address: str) -> None:
        responses = self._chats[address]
        try:
            # A response stays in the list while it is delivered, so that it is not taken twice.
            while responses:
                if not await self._deliver(responses[0], address):
                    self._held_chats.add(address)
                    break
                self._ended.add(responses[0].id)
                del responses[0]
        finally:
            del self._chats[address]
        # More may wait than one page holds.
        self.wake()

    async def _deliver(self, response: PendingResponse, address: str) -> bool:
        """Deliver and acknowledge one response; False when it failed and the chat has to wait."""
        try:
            keys = await self._send_all(response, address)
        except DeliveryError as error:
            await self._fail(response, error)
            return error.is_final
        except ClientError as error:
            log.warning("response %d waits: %s", response.id, error)
            return False
        if await self._acknowledge(response.id):
            self._journal.forget(keys)
            self._delivered(Chat.at(address))
            return True
        return False

    async def _acknowledge(self, response: int) -> bool:
        """True once the daemon has noted the delivery; False when it could not, then the next look repeats it."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._unacknowledged[response] = done
        self._deliveries.set()
        return await done

    async def _acknowledge_all(self) -> None:
        """Acknowledge deliveries together: those that finish during a call wait for the next one."""
        while True:
            await self._deliveries.wait()
            self._deliveries.clear()
            waiting, self._unacknowledged = self._unacknowledged, {}
            is_noted = True
            try:
                await self._client.responses.ack_all(list(waiting))
            except ClientError as error:
                log.debug("%d deliveries are not acknowledged yet: %s", len(waiting), error)
                is_noted = False
            for done in waiting.values():
                if not done.done():
                    done.set_result(is_noted)

    async def _fail(self, response: PendingResponse, error: DeliveryError) -> None:
        log.warning("response %d was not delivered: %s", response.id, one_line(str(error)))
        with suppress(ClientError):
            noted = await self._client.responses.fail(
                response.id, str(error), is_final=error.is_final, retry_after=error.retry_after
            )
            if noted.retry_at is not None:
                seconds = max(0, noted.retry_at - wall_clock()) / 1000
                asyncio.get_running_loop().call_later(seconds + _LATER, self.wake)

    async def _send_all(self, response: PendingResponse, address: str) -> list[str]:
        """Send the parts that were not sent before; return the keys of all."""
        try:
            chat = Chat.at(address)
        except ValueError:
            raise DeliveryError(f"{address!r} is not the address of a chat.", is_final=True) from None
        manifest = self._channel.manifest
        stem = f"{response.id}-{response.timestamp}"
        reply_to = reply_target(response, manifest.id)
        texts = split(response.message, manifest.text_limit, manifest.count)
        parts = [
            Part(chat, text, f"{stem}-{number}", reply_to if number == 0 else None) for number, text in enumerate(texts)
        ]
        files = [_FileOf(path, f"{stem}-file-{number}") for number, path in enumerate(response.files)]
        for part in parts:
            await self._once(part.key, partial(self._channel.send, part))
        for file in files:
            await self._once(file.key, partial(self._send_file, chat, file))
        return [*(part.key for part in parts), *(file.key for file in files)]

    async def _once(self, key: str, send: Callable[[], Awaitable[str]]) -> None:
        """Send a part unless the journal has it; sit out the platform's rate limit."""
        if self._journal.sent(key) is not None:
            return
        try:
            await self._send_and_record(key, send)
        except DeliveryError as error:
            if error.retry_after is None or error.retry_after > LONGEST_WAIT:
                raise
            await asyncio.sleep(error.retry_after)
            await self._send_and_record(key, send)

    async def _send_and_record(self, key: str, send: Callable[[], Awaitable[str]]) -> None:
        async with self._sends:
            await self._send_now(key, send)

    async def _send_now(self, key: str, send: Callable[[], Awaitable[str]]) -> None:
        sending = asyncio.ensure_future(send())
        try:
            sent = await asyncio.shield(sending)
        except asyncio.CancelledError:
            # Cut off, it would be delivered again after the restart: let it finish and record it.
            with suppress(DeliveryError, TimeoutError):
                async with asyncio.timeout(LAST_SEND):
                    self._journal.record(key, await sending)
            raise
        self._journal.record(key, sent)

    async def _send_file(self, chat: Chat, file: _FileOf) -> str:
        """Fetch the file from the daemon and send it; instead of one that cannot be sent, a sentence."""
        limit = self._channel.manifest.send_limit
        copy = self._downloads / token_hex(8)
        try:
            size = await self._client.files.fetch(file.path, copy)
            if size > limit:
                return await self._channel.send(Part(chat, self._too_large(file, size), file.key))
            return await self._channel.send_file(FilePart(chat, copy, file.name, file.key))
        except (NotFoundError, Rejected):
            return await self._channel.send(Part(chat, f"({file.name} is not there any more.)", file.key))
        finally:
            copy.unlink(missing_ok=True)

    def _too_large(self, file: _FileOf, size: int) -> str:
        manifest = self._channel.manifest
        return (
            f"({file.name} has {size / 1_000_000:.1f} MB, more than the {manifest.send_limit / 1_000_000:g} MB that "
            f"{manifest.name} accepts. It is on the machine of the agents: {file.path})"
        )


def reply_target(response: PendingResponse, channel: str) -> str | None:
    """The id of the ChannelMessage that started the conversation; None for a message that answers none.

    Not the response's own message: a teammate's answer belongs to a hand-off, which the person never wrote.
    """
    conversation = response.conversation_id or ""
    prefix = f"{channel}_"
    return conversation.removeprefix(prefix) if conversation.startswith(prefix) else None
