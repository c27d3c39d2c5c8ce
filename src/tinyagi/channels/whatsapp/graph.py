"""Calls of Meta's Graph API for one business number. Nothing is repeated here: the API knows no idempotency key."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import httpx
import msgspec

from tinyagi.channels.port import ChannelError, DeliveryError
from tinyagi.channels.whatsapp.graph_errors import Refusal, connect_error, delivery_error

_TIMEOUT: Final = httpx.Timeout(30.0)
_UPLOAD_TIMEOUT: Final = httpx.Timeout(30.0, write=120.0, read=120.0)
_CHUNK: Final = 65_536

_Body = TypeVar("_Body")


class _Account(msgspec.Struct):
    display_phone_number: str = ""
    verified_name: str = ""


class _Sent(msgspec.Struct):
    id: str


class _Accepted(msgspec.Struct):
    messages: list[_Sent] = []


class _Media(msgspec.Struct):
    url: str
    file_size: int | None = None


@dataclass(frozen=True, slots=True)
class Upload:
    path: Path
    name: str
    media_type: str


class Graph:
    """The API for one number, with its token."""

    def __init__(self, api_url: str, phone_number_id: str, token: str) -> None:
        self._api = httpx.URL(api_url.rstrip("/"))
        self._number = f"{api_url.rstrip('/')}/{phone_number_id}"
        self._number_id = phone_number_id
        self._token = token
        self._client = httpx.AsyncClient(
            timeout=_TIMEOUT,
            headers={"authorization": f"Bearer {token}"},
            follow_redirects=False,
            trust_env=False,
        )

    async def account(self) -> str:
        """The number and its name; raise NotSetUp or ChannelError."""
        fields = {"fields": "display_phone_number,verified_name"}
        try:
            answer = await self._client.get(self._number, params=fields)
        except httpx.HTTPError as error:
            raise ChannelError("WhatsApp's API cannot be reached. Check the network and api_url.") from error
        if not answer.is_success:
            raise connect_error(Refusal.of(answer, self._token))
        account = self._decoded(answer, _Account)
        return " ".join(part for part in (account.verified_name, account.display_phone_number) if part)

    async def send(self, message: Mapping[str, object]) -> str:
        """Send a message and return its id on WhatsApp; raise DeliveryError."""
        answer = await self._post(self._message(message))
        accepted = self._decoded(answer, _Accepted)
        if not accepted.messages:
            raise DeliveryError("WhatsApp answered without the id of the message.")
        return accepted.messages[0].id

    async def mark_typing(self, wamid: str) -> None:
        """Mark a message as read and show that an answer is being written; raise DeliveryError."""
        body = {"status": "read", "message_id": wamid, "typing_indicator": {"type": "text"}}
        await self._post(self._message(body))

    async def upload(self, file: Upload) -> str:
        """Upload a file and return its media id; raise DeliveryError, or OSError for a file that cannot be read."""
        with file.path.open("rb") as content:
            request = self._client.build_request(
                "POST",
                f"{self._number}/media",
                data={"messaging_product": "whatsapp", "type": file.media_type},
                files={"file": (file.name, content, file.media_type)},
                timeout=_UPLOAD_TIMEOUT,
            )
            answer = await self._post(request)
        return self._decoded(answer, _Sent).id

    async def download(self, media_id: str, limit: int) -> AsyncIterator[bytes]:
        """The bytes of a file; raise ChannelError when it is gone or larger than the limit."""
        try:
            media = await self._media(media_id)
            if media.file_size is not None and media.file_size > limit:
                raise _too_large(limit)
            received = 0
            async with self._client.stream("GET", self._safe(media.url)) as answer:
                if not answer.is_success:
                    raise ChannelError(f"WhatsApp answered {answer.status_code} when the file was fetched.")
                async for chunk in answer.aiter_bytes(_CHUNK):
                    received += len(chunk)
                    if received > limit:
                        raise _too_large(limit)
                    yield chunk
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ChannelError("The file could not be fetched from WhatsApp.") from error

    async def close(self) -> None:
        await self._client.aclose()

    async def _media(self, media_id: str) -> _Media:
        if not (media_id.isascii() and media_id.isalnum()):
            raise ChannelError("WhatsApp named a file with an id that is not one.")
        answer = await self._client.get(f"{self._api}/{media_id}", params={"phone_number_id": self._number_id})
        if not answer.is_success:
            raise ChannelError(str(delivery_error(Refusal.of(answer, self._token))))
        return self._decoded(answer, _Media)

    def _safe(self, address: str) -> httpx.URL:
        """The address of a file, to which the token may be sent."""
        url = httpx.URL(address)
        if url.scheme != "https" and (url.scheme, url.host, url.port) != (
            self._api.scheme,
            self._api.host,
            self._api.port,
        ):
            raise ChannelError("WhatsApp named a file at an address without TLS; it was not fetched.")
        return url

    def _message(self, body: Mapping[str, object]) -> httpx.Request:
        content = msgspec.json.encode({"messaging_product": "whatsapp", **body})
        headers = {"content-type": "application/json"}
        return self._client.build_request("POST", f"{self._number}/messages", content=content, headers=headers)

    async def _post(self, request: httpx.Request) -> httpx.Response:
        try:
            answer = await self._client.send(request)
        except httpx.TimeoutException as error:
            raise DeliveryError("WhatsApp's API did not answer in time.") from error
        except httpx.HTTPError as error:
            raise DeliveryError("WhatsApp's API cannot be reached. Check the network.") from error
        if not answer.is_success:
            raise delivery_error(Refusal.of(answer, self._token))
        return answer

    def _decoded(self, answer: httpx.Response, body: type[_Body]) -> _Body:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            return msgspec.json.decode(answer.content, type=body)
        raise DeliveryError("The answer of WhatsApp's API was not understood. Check api_url.")


def _too_large(limit: int) -> ChannelError:
    return ChannelError(f"The file is larger than {limit // 1_000_000} MB.")
