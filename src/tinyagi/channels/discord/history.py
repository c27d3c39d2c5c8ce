"""What the bot missed while it was away, over REST: the history of channels, and the threads of server channels."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from tinyagi.channels.discord.failures import CALL_ERRORS, failure_of
from tinyagi.channels.discord.inbox import PAGE
from tinyagi.channels.discord.library import discord

_log: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 4
_LONGEST_WAIT: Final = 60.0
_FORUMS: Final = frozenset({15, 16})
T = TypeVar("T")


class History:
    """Reads with few requests at once, and repeats a request until Discord answers it."""

    def __init__(self, client: discord.Client) -> None:
        self._client = client
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def after(self, channel: int, message: int) -> list[discord.Message]:
        """The next messages of a channel, oldest first, at most PAGE; none when Discord refuses them for good."""
        place = self._client.get_partial_messageable(channel)

        async def read() -> list[discord.Message]:
            after = discord.Object(message)
            return [found async for found in place.history(limit=PAGE, after=after, oldest_first=True)]

        return await self._patiently(read, channel) or []

    async def active_in(self, chosen: int) -> dict[int, int]:
        """The chosen server channel and its active threads, each with its last message; empty when it is refused."""
        http = self._client.http
        found = await self._patiently(lambda: http.get_channel(chosen), chosen)
        if found is None:
            return {}
        guild = found.get("guild_id")
        if not isinstance(guild, str | int):
            _log.warning("The Discord channel %s is not a channel of a server; correct guild_channels.", chosen)
            return {}
        listed = await self._patiently(lambda: http.get_active_threads(guild), chosen)
        threads = listed["threads"] if listed else []
        last = {int(thread["id"]): _last(thread) for thread in threads if int(thread["parent_id"]) == chosen}
        # A forum has threads but no messages of its own.
        return last if found["type"] in _FORUMS else {chosen: _last(found), **last}

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
