"""Chats and messages of Telegram in the port's form, and back."""

from dataclasses import dataclass

from telegram import Message

from tinyagi.channels.port import DeliveryError
from tinyagi.domain.chats import Chat


@dataclass(frozen=True, slots=True)
class Target:
    """Where Telegram delivers: a chat, and in a forum the topic."""

    chat_id: int
    topic: int | None = None


def place_of(message: Message) -> str:
    """`<chat id>` or `<chat id>/<topic>` of a group; empty in a direct chat."""
    if message.chat.type == "private":
        return ""
    # Outside forums, Telegram also numbers the threads of replies; those are no topics.
    topic = f"/{message.message_thread_id}" if message.is_topic_message and message.message_thread_id else ""
    return f"{message.chat.id}{topic}"


def target_of(chat: Chat) -> Target:
    """Where the chat is; raise DeliveryError for an address that is not Telegram's."""
    chat_id, _, topic = (chat.place or chat.person).partition("/")
    try:
        return Target(int(chat_id), int(topic) if topic else None)
    except ValueError:
        reason = f"{chat.address!r} is not an address of Telegram: people, groups and topics have numbers there."
        raise DeliveryError(reason, is_final=True) from None


def id_of(message: Message) -> str:
    """`<chat id>.<message id>`: Telegram counts messages within their chat."""
    return f"{message.chat.id}.{message.message_id}"


def parse_id(message: str) -> tuple[int, int]:
    """Chat id and message id; raise DeliveryError for an id that `id_of` did not make."""
    chat_id, _, number = message.partition(".")
    try:
        return int(chat_id), int(number)
    except ValueError:
        raise DeliveryError(f"{message!r} is not the id of a message of Telegram.", is_final=True) from None
