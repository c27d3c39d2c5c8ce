"""The Telegram channel: a bot that polls the Bot API."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from telegram import InputFile, LinkPreviewOptions, Message, ReplyParameters, User
from telegram.constants import ChatAction, ParseMode
from telegram.error import BadRequest, ChatMigrated, TelegramError

from tinyagi.channels.port import COMMANDS, DeliveryError, FilePart, Manifest, NotSetUp, Part, Receive
from tinyagi.channels.telegram import utf16
from tinyagi.channels.telegram.addresses import Target, id_of, parse_id, target_of
from tinyagi.channels.telegram.attachments import TelegramDownloads
from tinyagi.channels.telegram.client import Received, TelegramClient
from tinyagi.channels.telegram.errors import (
    RateLimited,
    UploadTooLarge,
    connection_error,
    delivery_error,
    is_temporary,
    refuses_markup,
    says,
)
from tinyagi.channels.telegram.formatting import to_html
from tinyagi.channels.telegram.handover import Handover
from tinyagi.channels.telegram.incoming import read
from tinyagi.channels.telegram.manifest import MANIFEST
from tinyagi.domain.chats import Chat

_log: Final = logging.getLogger(__name__)
_T = TypeVar("_T")

_TOKEN: Final = re.compile(r"\d+:[\w-]+", re.ASCII)
_ADDRESS: Final = re.compile(r"https?://[^\s{}?#]+")
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f]")
_POLL_SECONDS: Final = 30
_RECHECK_SECONDS: Final = 1.0
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 30.0
_ANSWER_TO_FILE_SECONDS: Final = 120.0
_AUDIO: Final = frozenset({".mp3", ".m4a"})
_NO_PREVIEW: Final = LinkPreviewOptions(is_disabled=True)
"""Telegram opens every link that it previews: an agent's answer must not call addresses before a person decides to."""


@dataclass(frozen=True, slots=True)
class _Connection:
    """What exists between `connect` and `close`."""

    bot: TelegramClient
    me: User
    downloads: TelegramDownloads


class TelegramChannel:
    """A bot on Telegram. It keeps no state: Telegram keeps the messages that are not confirmed."""

    def __init__(self, settings: Mapping[str, str], state: Path) -> None:  # noqa: ARG002  # all channels are made so
        self._token = settings.get("bot_token", "").strip()
        self._api_url = settings.get("api_url", "").strip().rstrip("/")
        self._connection: _Connection | None = None
        self._moved: dict[int, int] = {}
        """New ids of groups that became supergroups."""

    @property
    def manifest(self) -> Manifest:
        return MANIFEST

    async def connect(self) -> str:
        self._check_settings()
        await self.close()
        bot = TelegramClient(self._token, self._api_url)
        try:
            me = await bot.get_me()
            if (await bot.get_webhook_info()).url:
                await bot.delete_webhook(drop_pending_updates=False)
                _log.info("the bot's webhook is removed: messages are now fetched")
        except TelegramError as error:
            await bot.close_connections()
            raise connection_error(error, self._api_url) from None
        except BaseException:
            await bot.close_connections()
            raise
        self._connection = _Connection(bot, me, TelegramDownloads(bot, bool(self._api_url)))
        await self._show_commands(bot)
        if not me.can_read_all_group_messages:
            _log.info("in groups Telegram shows this bot only replies and commands: see /setprivacy of @BotFather")
        return f"@{me.username}"

    async def receive(self, receive: Receive) -> None:
        connection = self._connected
        handover = Handover()
        failures = 0
        try:
            while True:
                try:
                    # While a message is open, its offset is asked for again, and Telegram answers at once.
                    seconds = 0 if handover.is_busy else _POLL_SECONDS
                    updates = await connection.bot.received(offset=handover.offset, seconds=seconds)
                except TelegramError as error:
                    await asyncio.sleep(self._pause(error, failures))
                    failures += 1
                    continue
                failures = 0
                if not updates and not handover.is_busy:
                    handover.rest()
                for update in updates:
                    _hand_over(update, connection, handover, receive)
                await handover.settle(_RECHECK_SECONDS)
        finally:
            await handover.cancel()

    async def send(self, part: Part) -> str:
        bot = self._connected.bot
        message = await self._deliver(target_of(part.chat), partial(_send_text, bot, part))
        return id_of(message)

    async def send_file(self, part: FilePart) -> str:
        bot = self._connected.bot
        try:
            size = (await asyncio.to_thread(part.path.stat)).st_size
            if size > MANIFEST.send_limit:
                raise delivery_error(UploadTooLarge("Request entity too large"))
            with await asyncio.to_thread(part.path.open, "rb") as content:
                file = InputFile(content, filename=_upload_name(part.name), read_file_handle=False)
                message = await self._deliver(target_of(part.chat), partial(_send_file, bot, part, content, file))
        except OSError as error:
            raise DeliveryError(f"The file {part.name} cannot be read: {error.strerror}.", is_final=True) from None
        return id_of(message)

    async def show_typing(self, chat: Chat) -> None:
        bot = self._connected.bot
        with suppress(DeliveryError):
            target = target_of(chat)
            await self._deliver(
                target, lambda to: bot.send_chat_action(to.chat_id, ChatAction.TYPING, message_thread_id=to.topic)
            )

    async def edit(self, chat: Chat, sent: str, text: str) -> None:  # noqa: ARG002  # the id names the chat
        bot = self._connected.bot
        chat_id, message_id = parse_id(sent)

        async def replace(shown: str, mode: str | None) -> None:
            await bot.edit_message_text(shown, chat_id, message_id, parse_mode=mode, link_preview_options=_NO_PREVIEW)

        try:
            try:
                await replace(to_html(text), ParseMode.HTML)
            except BadRequest as error:
                if not refuses_markup(error):
                    raise
                await replace(utf16.clean(text), None)
        except TelegramError as error:
            if not says(error, "message is not modified"):
                raise delivery_error(error) from None

    async def remove(self, chat: Chat, sent: str) -> None:  # noqa: ARG002  # the id names the chat
        chat_id, message_id = parse_id(sent)
        try:
            await self._connected.bot.delete_message(chat_id, message_id)
        except TelegramError as error:
            if not says(error, "message to delete not found"):
                raise delivery_error(error) from None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.bot.close_connections()

    @property
    def _connected(self) -> _Connection:
        if self._connection is None:
            raise DeliveryError("The Telegram channel is not connected.")
        return self._connection

    def _check_settings(self) -> None:
        if not _TOKEN.fullmatch(self._token):
            raise NotSetUp(
                "The bot token is missing or is none: it looks like 123456789:AAE4…. Get one from @BotFather and run: "
                "tinyagi channel setup telegram --bot-token …"
            )
        if self._api_url and not _ADDRESS.fullmatch(self._api_url):
            raise NotSetUp(
                "The setting api_url is not an address of a Bot API server, such as http://127.0.0.1:8081. Correct it "
                "or leave it out for Telegram's own."
            )

    async def _show_commands(self, bot: TelegramClient) -> None:
        try:
            await bot.set_my_commands(list(COMMANDS.items()))
        except TelegramError as error:
            _log.warning("the bot's command menu is not set: %s", delivery_error(error))

    def _pause(self, error: TelegramError, failures: int) -> float:
        """Seconds until the next try; raise ChannelError when trying again does not help."""
        if not is_temporary(error):
            raise connection_error(error, self._api_url) from None
        pause = min(_FIRST_PAUSE * 2.0 ** min(failures, 10), _LONGEST_PAUSE)
        if isinstance(error, RateLimited):
            pause = max(pause, error.seconds)
        _log.warning("no messages for %g s: %s", pause, connection_error(error, self._api_url))
        return pause

    async def _deliver(self, target: Target, call: Callable[[Target], Awaitable[_T]]) -> _T:
        """Call Telegram, and once more where the chat is now; raise DeliveryError."""
        if new_id := self._moved.get(target.chat_id):
            target = Target(new_id)
        try:
            try:
                return await call(target)
            except ChatMigrated as error:
                self._moved[target.chat_id] = error.new_chat_id
                return await call(Target(error.new_chat_id))
            except BadRequest as error:
                if target.topic is None or not says(error, "thread not found"):
                    raise
                return await call(Target(target.chat_id))  # the topic is deleted, the group is not
        except TelegramError as error:
            raise delivery_error(error) from None


def _hand_over(received: Received, connection: _Connection, handover: Handover, receive: Receive) -> None:
    """Pass the update's message on, in the order of its chat."""
    if handover.knows(received.id):
        return
    update = received.update
    message = read(update.message, connection.me, connection.downloads) if update and update.message else None
    if message is None:
        handover.skip(received.id)
    else:
        handover.add(received.id, message.chat.address, partial(receive, message))


def _reply_to(part: Part | FilePart, target: Target) -> ReplyParameters | None:
    """The message that the part answers, unless it is in another chat than the target."""
    if part.reply_to is None:
        return None
    chat_id, message_id = parse_id(part.reply_to)
    return ReplyParameters(message_id, allow_sending_without_reply=True) if chat_id == target.chat_id else None


def _upload_name(name: str) -> str:
    """The name as multipart forms can carry it: without control characters and double quotes."""
    return _UNFIT.sub("", utf16.clean(name)).replace('"', "'")


async def _send_text(bot: TelegramClient, part: Part, target: Target) -> Message:
    async def send(text: str, mode: str | None) -> Message:
        return await bot.send_message(
            target.chat_id,
            text,
            parse_mode=mode,
            message_thread_id=target.topic,
            reply_parameters=_reply_to(part, target),
            link_preview_options=_NO_PREVIEW,
        )

    try:
        return await send(to_html(part.text), ParseMode.HTML)
    except BadRequest as error:
        if not refuses_markup(error):
            raise
        _log.info("Telegram refuses the markup of a text; it is sent as plain text")
        return await send(utf16.clean(part.text), None)


async def _send_file(
    bot: TelegramClient, part: FilePart, content: BinaryIO, file: InputFile, target: Target
) -> Message:
    """As a document, which Telegram leaves as it is; music gets its player."""
    content.seek(0)
    if Path(part.name).suffix.lower() in _AUDIO:
        return await bot.send_audio(
            target.chat_id,
            file,
            message_thread_id=target.topic,
            reply_parameters=_reply_to(part, target),
            read_timeout=_ANSWER_TO_FILE_SECONDS,
        )
    return await bot.send_document(
        target.chat_id,
        file,
        message_thread_id=target.topic,
        reply_parameters=_reply_to(part, target),
        disable_content_type_detection=True,
        read_timeout=_ANSWER_TO_FILE_SECONDS,
    )
