"""The gateway's side of the channel: events of discord.py become entries of the inbox."""

import asyncio
import contextlib
import logging
import sys
from typing import Final

from tinyagi.channels.discord.attachments import DiscordDownloads
from tinyagi.channels.discord.commands import command_text
from tinyagi.channels.discord.failures import CALL_ERRORS, connection_error, failure_of
from tinyagi.channels.discord.history import MissedMessages
from tinyagi.channels.discord.inbox import DiscordInbox, InboxEntry
from tinyagi.channels.discord.incoming import Reader
from tinyagi.channels.discord.library import discord
from tinyagi.channels.discord.marks import Marks

_log: Final = logging.getLogger(__name__)
_LONGEST_RATE_LIMIT: Final = 30.0
"""Seconds that the library may wait inside a call; it has no smaller limit."""
_ANSWER_WITHIN: Final = 1.5
"""Seconds: Discord calls a command failed when it is not answered within three."""
_NOT_HERE: Final = "I do not answer in this channel. Write to me directly."


def intents_for(*, in_servers: bool) -> discord.Intents:
    """What the gateway sends. The texts of server channels need a permission of their own, direct messages do not."""
    return discord.Intents(guilds=True, dm_messages=True, guild_messages=in_servers, message_content=in_servers)


class DiscordClient(discord.Client):
    """Takes messages in the order of the gateway, and what it missed from the history."""

    def __init__(self, chosen: frozenset[int], marks: Marks, downloads: DiscordDownloads) -> None:
        super().__init__(
            intents=intents_for(in_servers=bool(chosen)),
            allowed_mentions=discord.AllowedMentions.none(),
            max_ratelimit_timeout=_LONGEST_RATE_LIMIT,
            # This channel needs no cache of messages or members, and does not wait for its servers' descriptions.
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            guild_ready_timeout=0,
        )
        self._chosen = chosen
        self._marks = marks
        self._downloads = downloads
        self._past = MissedMessages(self)
        self._reader: Reader | None = None
        self._knows_roles = asyncio.Event()
        self._search: asyncio.Task[None] | None = None
        self.inbox = DiscordInbox(marks, self._entries_after)
        self.is_connected = asyncio.Event()

    async def setup_hook(self) -> None:
        if self.user:
            self._reader = Reader(self.user.id, self._downloads)

    async def close(self) -> None:
        if self._search:
            self._search.cancel()
        await super().close()

    # The library starts these handlers in the order of the events: each acts before its first await.

    async def on_connect(self) -> None:
        """A new session: what happened since the last one is in the history only."""
        for channel in self._marks.channels():
            self.inbox.fall_behind(channel)
        if self._search:
            self._search.cancel()
        self._search = asyncio.create_task(self._look_at_servers(), name="discord servers")
        self.is_connected.set()

    async def on_message(self, message: discord.Message) -> None:
        channel, author = message.channel, message.author
        if isinstance(channel, discord.DMChannel):
            is_own = self.user is not None and author.id == self.user.id
            # The chat of an own message is marked by the delivery, which knows the person.
            if not is_own or self._marks.is_direct(channel.id):
                self.inbox.put(channel.id, self._entry(message, is_direct=True), person=0 if is_own else author.id)
        elif parent := self._parent(channel):
            self.inbox.put(channel.id, self._entry(message, is_direct=False), parent=parent)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        channel, is_direct = interaction.channel, interaction.guild_id is None
        if interaction.type is not discord.InteractionType.application_command or channel is None or not self._reader:
            return
        parent = 0 if is_direct else self._parent(channel)
        if not is_direct and not parent:
            await _answer(interaction, _NOT_HERE)
            return
        message = self._reader.command(interaction, channel.id, is_direct=is_direct)
        entry = InboxEntry(interaction.id, message, is_command=True)
        self.inbox.put(channel.id, entry, person=interaction.user.id if is_direct else 0, parent=parent)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_WITHIN):
                await entry.is_done.wait()
        await _answer(interaction, f"`{command_text(interaction).replace('`', chr(39))}`")

    async def on_error(self, event: str, /, *_: object, **__: object) -> None:
        """A message that is not understood is not skipped: the channel ends and starts again."""
        error = sys.exc_info()[1]
        _log.error("Discord's %s failed: %s", event, type(error).__name__)
        self.inbox.fail(connection_error(error))

    def _entry(self, message: discord.Message, *, is_direct: bool) -> InboxEntry:
        return InboxEntry(message.id, self._reader.message(message, is_direct=is_direct) if self._reader else None)

    async def _entries_after(self, channel: int, message: int) -> list[InboxEntry]:
        is_direct = self._marks.is_direct(channel)
        if not is_direct:
            await self._knows_roles.wait()
        return [
            self._entry(found, is_direct=is_direct)
            if isinstance(found, discord.Message)
            else InboxEntry(found.id, None)
            for found in await self._past.after(channel, message)
        ]

    async def _look_at_servers(self) -> None:
        """Begin with new server channels, and find threads that were active while the bot was away."""
        chosen = list(self._chosen)
        try:
            found = await asyncio.gather(*map(self._past.look_at, chosen))
        except Exception as error:  # an answer of an unknown form: the channel ends and starts again
            self.inbox.fail(connection_error(error))
            return
        if self._reader:
            self._reader.own_roles = frozenset().union(*(activity.own_roles for activity in found))
        self._knows_roles.set()
        for parent, activity in zip(chosen, found, strict=True):
            if activity.last:
                self._marks.watch(parent, max(activity.last.values()))
            for channel, last in activity.last.items():
                if last > self._marks.start(channel, parent):
                    self._marks.open(channel, before=last, parent=parent)
                    self.inbox.fall_behind(channel)

    def _parent(self, channel: discord.abc.Snowflake) -> int:
        """The chosen server channel that this is, or whose thread it is; 0 when the bot does not answer here."""
        if channel.id in self._chosen:
            return channel.id
        parent = channel.parent_id if isinstance(channel, discord.Thread) else self._marks.parent(channel.id)
        return parent if parent in self._chosen else 0


async def _answer(interaction: discord.Interaction, text: str) -> None:
    """Tell Discord that the command was taken; only the person who chose it sees the text."""
    try:
        await interaction.response.send_message(text, ephemeral=True)
    except CALL_ERRORS as error:
        _log.info("Discord did not take the answer to a command: %s", failure_of(error).reason)
