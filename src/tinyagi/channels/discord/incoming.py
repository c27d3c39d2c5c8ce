"""From Discord's messages and commands to the port's."""

import re
from typing import Final

from tinyagi.channels.discord.attachments import DiscordDownloads
from tinyagi.channels.discord.commands import command_text
from tinyagi.channels.discord.library import discord
from tinyagi.channels.port import ChannelMessage
from tinyagi.domain.chats import Chat

_COMMAND_SIGN: Final = "c"
"""Before the number of a command's id: Discord has no message of that id to reply to."""
_BY_PEOPLE: Final = frozenset({discord.MessageType.default, discord.MessageType.reply})


def parse_sent(sent: str) -> tuple[int, int] | None:
    """The Discord channel and message of an id; None when there is no such message."""
    channel, _, message = sent.partition(".")
    return (int(channel), int(message)) if channel.isdecimal() and message.isdecimal() else None


def message_id(channel: int, message: int) -> str:
    return f"{channel}.{message}"


class Reader:
    """Reads what people write to the bot."""

    def __init__(self, me: int, downloads: DiscordDownloads) -> None:
        self._me = me
        self._downloads = downloads
        self.own_roles: frozenset[int] = frozenset()
        """Roles of the bot's name, which people choose by mistake."""

    def message(self, message: discord.Message, *, is_direct: bool) -> ChannelMessage | None:
        """The message for the daemon; None when it is not for the bot: its own, a notice, or not addressed to it."""
        if message.author.id == self._me or message.type not in _BY_PEOPLE:
            return None
        if not is_direct and not self._is_addressed(message):
            return None
        author, channel = message.author, message.channel.id
        return ChannelMessage(
            id=message_id(channel, message.id),
            chat=Chat(str(author.id), "" if is_direct else str(channel)),
            name=author.display_name,
            text=self._text(message),
            attachments=self._downloads.of(message),
            is_from_bot=author.bot or message.webhook_id is not None,
        )

    def command(self, interaction: discord.Interaction, channel: int, *, is_direct: bool) -> ChannelMessage:
        """A slash command as the text that a person would type."""
        user = interaction.user
        return ChannelMessage(
            id=f"{channel}.{_COMMAND_SIGN}{interaction.id}",
            chat=Chat(str(user.id), "" if is_direct else str(channel)),
            name=user.display_name,
            text=command_text(interaction),
            is_from_bot=user.bot,
        )

    def _is_addressed(self, message: discord.Message) -> bool:
        replied = message.reference.resolved if message.reference else None
        return (
            any(user.id == self._me for user in message.mentions)
            or not self.own_roles.isdisjoint(message.raw_role_mentions)
            or (isinstance(replied, discord.Message) and replied.author.id == self._me)
        )

    def _text(self, message: discord.Message) -> str:
        mine = [f"@!?{self._me}", *(f"@&{role}" for role in self.own_roles)]
        written = re.sub(rf"<(?:{'|'.join(mine)})>[ \t]*", "", message.content).strip()
        forwarded = (snapshot.content for snapshot in message.message_snapshots)
        return "\n\n".join(text for text in (written, *forwarded, _poll(message)) if text)


def _poll(message: discord.Message) -> str:
    if message.poll is None:
        return ""
    return "\n".join((message.poll.question, *(f"- {answer.text}" for answer in message.poll.answers)))
