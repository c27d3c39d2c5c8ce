"""Telegram's messages as the port's: what is meant for the bot, from whom, with which text and files."""

import re
from typing import Final

from telegram import Message, MessageEntity, User

from tinyagi.channels.port import ChannelMessage
from tinyagi.channels.telegram import utf16
from tinyagi.channels.telegram.addresses import id_of, place_of
from tinyagi.channels.telegram.attachments import TelegramDownloads, file_of
from tinyagi.domain.chats import Chat

_AFTER_A_NAME: Final = " \t,:;\n"
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_OTHER_KINDS: Final = ("game", "giveaway", "invoice", "live_photo", "paid_media", "passport_data", "story")


def read(message: Message, me: User, downloads: TelegramDownloads) -> ChannelMessage | None:
    """The message as the port's; None when it is not for the bot, or says nothing, like a change of a group's title."""
    sender = _sender_of(message)
    if sender is None or sender[0] == str(me.id):
        return None
    place = place_of(message)
    spans = _names_of(message, me)
    if place and not spans and not _answers(message, me):
        return None
    file = file_of(message)
    text = utf16.clean(_text_of(message, spans))
    if not text and not file and not spans:
        return None
    person, name, is_bot = sender
    return ChannelMessage(
        id=id_of(message),
        chat=Chat(person, place),
        name=name,
        text=text,
        attachments=(downloads.attachment(*file),) if file else (),
        is_from_bot=is_bot,
    )


def _sender_of(message: Message) -> tuple[str, str, bool] | None:
    """Id, name and whether it is a bot. A message on behalf of a group or channel has the id of that one."""
    if chat := message.sender_chat:
        return str(chat.id), _name(chat.title, chat.id), False
    if user := message.from_user:
        return str(user.id), _name(user.full_name, user.id), user.is_bot
    return None


def _name(name: str | None, own_id: int) -> str:
    """The name in one line; the id where there is none."""
    return _UNFIT.sub(" ", utf16.clean(name or "")).strip() or str(own_id)


def _names_of(message: Message, me: User) -> list[tuple[int, int]]:
    """Where the text names this bot, in UTF-16 units; of `/command@bot` only the name."""
    text = message.text or message.caption or ""
    handle = f"@{me.username}".lower()
    spans = []
    for entity in message.entities or message.caption_entities:
        words = utf16.part(text, entity.offset, entity.length).lower()
        is_named = entity.type == MessageEntity.MENTION and words == handle
        is_linked = entity.type == MessageEntity.TEXT_MENTION and entity.user is not None and entity.user.id == me.id
        if is_named or is_linked:
            spans.append((entity.offset, entity.length))
        elif entity.type == MessageEntity.BOT_COMMAND and words.endswith(handle):
            size = utf16.length(handle)
            spans.append((entity.offset + entity.length - size, size))
    return spans


def _answers(message: Message, me: User) -> bool:
    """The message replies to the bot. In a forum, every message replies to the one that made its topic."""
    replied = message.reply_to_message
    is_reply = replied is not None and replied.forum_topic_created is None
    return is_reply and replied is not None and replied.from_user is not None and replied.from_user.id == me.id


def _text_of(message: Message, spans: list[tuple[int, int]]) -> str:
    text = message.text or message.caption
    if text is None:
        return _described(message)
    for start, size in sorted(spans, reverse=True):
        text = utf16.without(text, start, size)
    text = text.strip()
    return text.lstrip(_AFTER_A_NAME) if any(start == 0 for start, _ in spans) else text


def _described(message: Message) -> str:
    """Places, contacts, polls and the like as a text in brackets; the emoji of a sticker."""
    if message.sticker:
        return message.sticker.emoji or ""
    kind = next((kind for kind in _OTHER_KINDS if getattr(message, kind)), "")
    words = _place(message) or _person(message) or _choices(message) or kind.replace("_", " ")
    return f"[{words}]" if words and not file_of(message) else ""


def _place(message: Message) -> str | None:
    if venue := message.venue:
        where = venue.location
        return f"place: {venue.title}, {venue.address}, {where.latitude}, {where.longitude}"
    if location := message.location:
        return f"location: {location.latitude}, {location.longitude}"
    return None


def _person(message: Message) -> str | None:
    if contact := message.contact:
        name = " ".join(part for part in (contact.first_name, contact.last_name) if part)
        return f"contact: {name}, {contact.phone_number}"
    return None


def _choices(message: Message) -> str | None:
    if poll := message.poll:
        return f"poll: {poll.question} {' / '.join(option.text for option in poll.options)}"
    if checklist := message.checklist:
        return f"checklist: {checklist.title}: {' / '.join(task.text for task in checklist.tasks)}"
    if dice := message.dice:
        return f"dice: {dice.emoji} {dice.value}"
    return None
