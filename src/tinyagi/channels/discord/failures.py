"""What the library's errors mean for a call: a sentence with the remedy, whether to try again, and when."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import aiohttp

from tinyagi.channels.discord.library import discord
from tinyagi.channels.discord.manifest import INTENT_PLACE, TOKEN_PLACE
from tinyagi.channels.port import ChannelError, DeliveryError, NotSetUp

CALL_ERRORS: Final = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError, RuntimeError)
"""What a call of the library raises; RuntimeError is aiohttp's for a closed session."""

TOKEN_REFUSED: Final = f"Discord refuses the bot token. Get a new one ({TOKEN_PLACE}) and set bot_token again."
INTENT_MISSING: Final = (
    f"Discord does not give the bot the texts of server channels. Switch on {INTENT_PLACE}, "
    "or remove the setting guild_channels."
)
_AWAY: Final = "Discord cannot be reached; check this machine's network."
_NO_DIRECT_MESSAGES: Final = (
    "Discord does not deliver to this person. They must share a server with the bot and allow direct messages there."
)
_REMEDIES: Final = {
    10003: "Discord does not know this channel: it was deleted, or the bot was removed from its server.",
    10008: "Discord does not know this message: it was deleted.",
    10013: "Discord does not know this person.",
    40005: "Discord refuses the file because it is too large.",
    50001: "The bot cannot see this channel. Give it the permission View Channel there.",
    50007: _NO_DIRECT_MESSAGES,
    50013: "The bot lacks a permission in this channel. Give it Send Messages, Send Messages in Threads, Attach Files "
    "and Read Message History there.",
    50278: _NO_DIRECT_MESSAGES,
}
CANNOT_QUOTE: Final = 160002
"""Discord's code for a reply without the permission Read Message History."""
_AUTHENTICATION_FAILED: Final = 4004
_INTENTS_REFUSED: Final = (4013, 4014)
_TOO_MANY_NEW_CHATS: Final = 40003
_NEW_CHAT_WAIT: Final = 60.0


@dataclass(frozen=True, slots=True)
class DiscordFailure:
    """Why a call did not succeed, and when to repeat it."""

    reason: str
    retry_after: float | None = None
    is_final: bool = False


def failure_of(error: Exception) -> DiscordFailure:
    """Explain an error of the library. Reasons contain neither addresses nor tokens."""
    if isinstance(error, discord.RateLimited):
        return _rate_limit(error.retry_after)
    if isinstance(error, discord.HTTPException):
        return _answer(error)
    if isinstance(error, RuntimeError):
        return DiscordFailure("The connection with Discord is closed; it is opened again.")
    return DiscordFailure(_AWAY)


def _answer(error: discord.HTTPException) -> DiscordFailure:
    if error.status == 429:
        # Without a body of its own, from Discord's network edge: the header has the wait.
        return _rate_limit(_seconds(error.response.headers.get("Retry-After")))
    if error.code == _TOO_MANY_NEW_CHATS:
        return DiscordFailure("Discord lets the bot begin no more direct chats for now.", _NEW_CHAT_WAIT)
    if error.status == 401:
        return DiscordFailure(TOKEN_REFUSED)
    if error.status >= 500:
        return DiscordFailure(f"Discord has a problem of its own (status {error.status}).")
    said = error.text.partition("\n")[0][:200] or "no reason"
    return DiscordFailure(
        _REMEDIES.get(error.code) or f"Discord refuses this (status {error.status}: {said}).", is_final=True
    )


def _rate_limit(seconds: float | None) -> DiscordFailure:
    return DiscordFailure("Discord's rate limit is reached.", seconds)


def _seconds(header: str | None) -> float | None:
    try:
        return float(header) if header else None
    except ValueError:
        return None


@contextlib.contextmanager
def delivering() -> Iterator[None]:
    """Raise DeliveryError for an error of the library in this block."""
    try:
        yield
    except CALL_ERRORS as error:
        failure = failure_of(error)
        raise DeliveryError(failure.reason, retry_after=failure.retry_after, is_final=failure.is_final) from error


def connection_error(error: BaseException | None) -> ChannelError:
    """Explain why logging in failed or the gateway ended."""
    code = error.code if isinstance(error, discord.ConnectionClosed) else None
    if isinstance(error, discord.LoginFailure) or code == _AUTHENTICATION_FAILED:
        return NotSetUp(TOKEN_REFUSED)
    if code in _INTENTS_REFUSED:
        return NotSetUp(INTENT_MISSING)
    if isinstance(error, CALL_ERRORS) and code is None:
        return ChannelError(failure_of(error).reason)
    if isinstance(error, Exception) and code is None:
        return ChannelError(f"Something that Discord sent was not understood ({type(error).__name__}).")
    return ChannelError("Discord closed the connection" + (f" (code {code})." if code else "."))
