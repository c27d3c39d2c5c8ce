"""What the bot missed while it was away, over REST: the history of channels, and the threads of server channels."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tinyagi.channels.discord.failures import CALL_ERRORS, failure_of
from tinyagi.channels.discord.inbox import PAGE
from tinyagi.channels.discord.library import discord

_log: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 4
_LONGEST_WAIT: Final = 60.0
_FORUMS: Final = frozenset({15, 16})
"""They have threads, but no messages of their own."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Activity:
    """A chosen server channel and its active threads."""

    last: Mapping[int, int] = field(default_factory=dict)
    """The last message of each."""
    own_roles: frozenset[int] = frozenset()
    """Roles that Discord made for the bot in that server."""


class MissedMessages:
    """Reads with few requests at once, and repeats a request until Discord answers it."""

    def __init__(self, client: discord.Client) -> None:
        self._client = client
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def after(self, channel: int, message: int) -> Sequence[discord.Message | discord.Object]:
        """The next messages of a channel, oldest first, at most PAGE; none when Discord refuses them for good.

        An Object is in the place of a message that the library does not understand.
        """
        place = self._client.get_partial_messageable(channel)

        async def read() -> list[discord.Message]:
            after = discord.Object(message)
            return [found async for found in place.history(limit=PAGE, after=after, oldest_first=True)]

        try:
            return await self._patiently(read, channel) or []
        except Exception as error:  # one message that the library does not understand fails the whole page
            _log.warning("Messages of the Discord channel %s are read one by one (%s).", channel, type(error).__name__)
            return await self._one_by_one(place, message)

    async def _one_by_one(
        self, place: discord.PartialMessageable, message: int
    ) -> list[discord.Message | discord.Object]:
        page = await self._patiently(lambda: self._client.http.logs_from(place.id, PAGE, after=message), place.id)
        found: list[discord.Message | discord.Object] = []
        for number in sorted(int(one["id"]) for one in page or ()):
            try:
                one = await self._patiently(functools.partial(place.fetch_message, number), place.id)
            except Exception as error:
                name = type(error).__name__
                _log.warning("The message %s of the Discord channel %s is skipped (%s).", number, place.id, name)
                one = None
            found.append(one or discord.Object(number))
        return found

    async def look_at(self, chosen: int) -> Activity:
        """What is active in a chosen server channel; nothing when Discord refuses it."""
        http = self._client.http
        channel = await self._patiently(lambda: http.get_channel(chosen), chosen)
        guild = channel.get("guild_id") if channel else None
        if channel is None or not isinstance(guild, str | int):
            _log.warning("%s in guild_channels is not a server channel that the bot can read.", chosen)
            return Activity()
        roles = await self._patiently(lambda: http.get_roles(guild), chosen) or []
        listed = await self._patiently(lambda: http.get_active_threads(guild), chosen)
        threads = listed["threads"] if listed else []
        last = {int(thread["id"]): _last(thread) for thread in threads if int(thread["parent_id"]) == chosen}
        if channel["type"] not in _FORUMS:
            last[chosen] = _last(channel)
        return Activity(last, frozenset(int(role["id"]) for role in roles if self._is_own(role)))

    def _is_own(self, role: Mapping[str, object]) -> bool:
        tags, me = role.get("tags"), self._client.user
        return isinstance(tags, dict) and me is not None and tags.get("bot_id") == str(me.id)

    async def _patiently(self, request: Callable[[], Awaitable[T]], channel: int) -> T | None:
        """Repeat the request until Discord answers; None when it refuses for good."""
        wait = 1.0
        while True:
            try:
                async with self._turn:
                    return await request()
            except CALL_ERRORS as error:
                failure = failure_of(error)
                if failure.is_final:
                    _log.warning("Messages of the Discord channel %s are not read: %s", channel, failure.reason)
                    return None
                _log.info("Messages of the Discord channel %s are read later: %s", channel, failure.reason)
                await asyncio.sleep(failure.retry_after or wait)
                wait = min(2 * wait, _LONGEST_WAIT)


def _last(channel: Mapping[str, object]) -> int:
    """The last message of a channel; its own id, which is older than all of them, when it has none."""
    return int(str(channel.get("last_message_id") or channel["id"]))
