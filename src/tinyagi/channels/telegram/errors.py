"""Telegram's refusals as the port's errors: sentences that name the remedy and contain no token."""

import json
import re
from http import HTTPStatus
from typing import Final

import httpx
from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, TelegramError, TimedOut

from tinyagi.channels.port import ChannelError, DeliveryError, NotSetUp

_TOKEN: Final = re.compile(r"\d+:[\w-]{8,}", re.ASCII)
_LONGEST_REASON: Final = 200
_REMEDY: Final = "Get a new one from @BotFather and run: tinyagi channel setup telegram --bot-token …"


class RateLimited(TelegramError):
    """Telegram asks the bot to wait. The library's own error for it warns about its future with every use."""

    def __init__(self, seconds: float) -> None:
        super().__init__("Too many requests")
        self.seconds = seconds


class UploadTooLarge(TelegramError):
    """Telegram takes no file of this size."""


async def raise_for_status(response: httpx.Response) -> None:
    """Refusals that the library would report as lost connections; used as a hook of its HTTP client."""
    status = response.status_code
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        raise RateLimited(_wait_of(await response.aread()))
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
        raise UploadTooLarge("Request entity too large")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise NetworkError(f"Telegram answers with the error {status}")


def _wait_of(body: bytes) -> float:
    try:
        return max(0.0, float(json.loads(body)["parameters"]["retry_after"]))
    except (ValueError, KeyError, TypeError):
        return 1.0


def connection_error(error: TelegramError, api_url: str) -> ChannelError:
    """Why the channel cannot connect or receive."""
    if isinstance(error, InvalidToken):
        where = f", or {api_url} is not the address of a Bot API server" if api_url else ""
        return NotSetUp(f"Telegram refuses the bot token{where}. {_REMEDY}")
    if isinstance(error, Conflict):
        if "webhook" in error.message.lower():
            return ChannelError(
                "Another program set a webhook for this bot. Stop that program, then restart the channel: it removes "
                "the webhook."
            )
        return ChannelError(
            "Another program receives messages with this bot's token. Stop that program, or make a new bot with "
            "@BotFather and run: tinyagi channel setup telegram --bot-token …"
        )
    if is_temporary(error):
        return ChannelError(_trouble(error))
    return ChannelError(f"Telegram refuses the connection: {_shown(error)}.")


def is_temporary(error: TelegramError) -> bool:
    """Trying again may help."""
    return isinstance(error, RateLimited) or (isinstance(error, NetworkError) and not isinstance(error, BadRequest))


def delivery_error(error: TelegramError) -> DeliveryError:
    """Why a part was not delivered."""
    if isinstance(error, RateLimited):
        reason = f"Telegram limits how fast the bot may write; it accepts the next message in {error.seconds:g} s."
        return DeliveryError(reason, retry_after=error.seconds)
    if is_temporary(error):
        return DeliveryError(_trouble(error))
    if isinstance(error, InvalidToken):
        return DeliveryError(f"Telegram refuses the bot token. {_REMEDY}")
    if isinstance(error, BadRequest | UploadTooLarge | Forbidden):
        return DeliveryError(_refusal(error), is_final=True)
    return DeliveryError(f"Telegram did not accept the message: {_shown(error)}.")


def _refusal(error: BadRequest | UploadTooLarge | Forbidden) -> str:
    """Why Telegram never accepts this."""
    if isinstance(error, UploadTooLarge) or says(error, "too big"):
        return "The file is too large for Telegram. Send a smaller one or a link."
    if says(error, "chat not found"):
        return (
            "Telegram does not let the bot into this chat. The person must write to the bot first, or a group's "
            "administrator must add it."
        )
    if isinstance(error, Forbidden):
        remedy = "The person must unblock the bot and write to it, or a group's administrator must let it write."
        return f"Telegram refuses this chat: {_shown(error)}. {remedy}"
    return f"Telegram refuses the message: {_shown(error)}."


def refuses_markup(error: BadRequest) -> bool:
    """The text can be delivered without its formatting."""
    message = error.message.lower()
    return "can't parse" in message or "entit" in message


def says(error: TelegramError, words: str) -> bool:
    return isinstance(error, BadRequest) and words in error.message.lower()


def _trouble(error: TelegramError) -> str:
    """What is wrong with the connection. The library's message is left out: it may quote an address with the token."""
    if isinstance(error, TimedOut):
        return "Telegram did not answer in time."
    if isinstance(error, RateLimited):
        return f"Telegram asks the bot to wait {error.seconds:g} s."
    if error.message.startswith("Telegram answers"):
        return f"{error.message}; it is probably down for a moment."
    return "Telegram cannot be reached. Check the network and the setting api_url of the channel."


def _shown(error: TelegramError) -> str:
    """Telegram's own words, in one line."""
    words = _TOKEN.sub("<token>", " ".join(error.message.split()))
    return words[:_LONGEST_REASON].rstrip(".")
