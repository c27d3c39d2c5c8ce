"""Telegram's library as this channel uses it: connections, time limits, quiet logs, and updates read one by one."""

import logging
import ssl
from dataclasses import dataclass
from typing import Final

import httpx
from telegram import Bot, Update
from telegram.error import TelegramError
from telegram.request import HTTPXRequest

from tinyagi.channels.telegram.errors import raise_for_status

_log: Final = logging.getLogger(__name__)

OFFICIAL: Final = "https://api.telegram.org"
_CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 20.0
_UPLOAD_SECONDS: Final = 60.0
_POOL_SECONDS: Final = 30.0
_CONNECTIONS: Final = 64


@dataclass(frozen=True, slots=True)
class Received:
    """An update of Telegram; `update` is None when the library cannot read it."""

    id: int
    update: Update | None


class TelegramClient(Bot):
    """The library's bot. It never repeats a request, so a text is sent twice only when its caller decides so."""

    def __init__(self, token: str, api_url: str) -> None:
        _silence_the_libraries()
        encryption = httpx.create_ssl_context()  # reads the certificates of the system: slow, so once for all
        self._sends = _request(encryption)
        self._polls = _request(encryption)
        self._downloads = _download_client(encryption)
        base = api_url or OFFICIAL
        super().__init__(
            token,
            base_url=f"{base}/bot",
            base_file_url=f"{base}/file/bot",
            request=self._sends,
            get_updates_request=self._polls,
        )

    @property
    def downloads(self) -> httpx.AsyncClient:
        """For files, which the library would read into memory as a whole."""
        return self._downloads

    async def received(self, *, offset: int, seconds: int) -> list[Received]:
        """Unconfirmed updates from `offset` on; waits for the first one. The earlier ones are confirmed thereby."""
        # The library's get_updates fails for the whole list when it cannot read one update, again and again.
        result: object = await self._post(
            "getUpdates",
            {"offset": offset, "timeout": seconds, "allowed_updates": ["message"]},
            read_timeout=seconds + _ANSWER_SECONDS,
        )
        if not isinstance(result, list):
            raise TelegramError("the list of updates is missing")
        return [self._read(update) for update in result]

    def _read(self, data: dict[str, object]) -> Received:
        update_id = data.get("update_id")
        if not isinstance(update_id, int):
            raise TelegramError("an update has no id")
        try:
            return Received(update_id, Update.de_json(data, self))
        except Exception as error:  # whatever a new kind of message makes the library raise
            _log.warning("update %d is skipped: the library cannot read it (%s)", update_id, type(error).__name__)
            return Received(update_id, None)

    async def close_connections(self) -> None:
        await self._sends.shutdown()
        await self._polls.shutdown()
        await self._downloads.aclose()


def _download_client(encryption: ssl.SSLContext) -> httpx.AsyncClient:
    timeout = httpx.Timeout(_UPLOAD_SECONDS, connect=_CONNECT_SECONDS)
    return httpx.AsyncClient(timeout=timeout, verify=encryption, event_hooks={"response": [raise_for_status]})


def _request(encryption: ssl.SSLContext) -> HTTPXRequest:
    return HTTPXRequest(
        connection_pool_size=_CONNECTIONS,
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_ANSWER_SECONDS,
        write_timeout=_ANSWER_SECONDS,
        pool_timeout=_POOL_SECONDS,
        media_write_timeout=_UPLOAD_SECONDS,
        httpx_kwargs={"verify": encryption, "event_hooks": {"response": [raise_for_status]}},
    )


def _silence_the_libraries() -> None:
    """Their log lines hold addresses with the token, and texts of messages; failures come as exceptions anyway."""
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("telegram").setLevel(logging.CRITICAL + 1)
