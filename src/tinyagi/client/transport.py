"""Requests to the daemon: one connection pool, answers as types, errors as sentences."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, NoReturn, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from tinyagi.api.base import Error
from tinyagi.client.errors import (
    ClientError,
    ConflictError,
    ConnectionLost,
    NotFoundError,
    NotRunning,
    NotTinyAGI,
    Rejected,
    ServerFault,
    TooManyRequests,
    Unauthorized,
)
from tinyagi.domain.texts import one_line

T = TypeVar("T")

Query = Mapping[str, str | int | None]
Body = BaseModel | Mapping[str, object] | None

_TIMEOUT: Final = httpx.Timeout(30, connect=5)
_JSON: Final = {"Content-Type": "application/json"}
_KINDS: Final[Mapping[int, type[ClientError]]] = {
    400: Rejected,
    401: Unauthorized,
    403: Rejected,
    404: NotFoundError,
    405: Rejected,
    409: ConflictError,
    413: Rejected,
    415: Rejected,
}


class Transport:
    """Speaks HTTP with one daemon."""

    def __init__(self, url: str, token: str | None, client_name: str) -> None:
        self.url = url.rstrip("/")
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if client_name:
            headers["X-TinyAGI-Client"] = client_name
        # The daemon is on this machine or at an address somebody typed: proxies of the environment are not for it.
        self._http = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=_TIMEOUT, trust_env=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, answer: type[T], **query: str | int | None) -> T:
        try:
            response = await self._send("GET", path, query=query)
        except ConnectionLost:
            # A kept connection that the daemon closed meanwhile; reading again changes nothing.
            response = await self._send("GET", path, query=query)
        return self._understand(response, answer)

    async def post(self, path: str, answer: type[T], body: Body = None) -> T:
        return self._understand(await self._send("POST", path, body=body), answer)

    async def put(self, path: str, answer: type[T], body: Body = None) -> T:
        return self._understand(await self._send("PUT", path, body=body), answer)

    async def delete(self, path: str, answer: type[T], **query: str | int | None) -> T:
        return self._understand(await self._send("DELETE", path, query=query), answer)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query, headers: Mapping[str, str], silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer's bytes as they come; a pause longer than `silence` seconds is a lost connection."""
        timeout = httpx.Timeout(silence, connect=5)
        given = {name: value for name, value in query.items() if value is not None}
        accept = {"Accept": "text/event-stream", **headers}
        try:
            async with self._http.stream("GET", path, params=given, headers=accept, timeout=timeout) as response:
                if response.status_code != 200:
                    await response.aread()
                    self._fail(response)
                if not response.headers.get("content-type", "").startswith("text/event-stream"):
                    raise NotTinyAGI(self.url, "no stream of events")
                yield response.aiter_bytes()
        except httpx.TransportError as error:
            raise self._unreached(error) from error

    async def _send(self, method: str, path: str, *, query: Query | None = None, body: Body = None) -> httpx.Response:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            return await self._http.request(
                method,
                path,
                params=given,
                content=_encoded(body),
                # Writes without a body say it too: the server refuses everything that a plain web form could send.
                headers=None if method == "GET" else _JSON,
            )
        except httpx.TransportError as error:
            raise self._unreached(error) from error
        except httpx.InvalidURL as error:
            raise Rejected(f"{self.url} is no address: {error}. Use one like http://127.0.0.1:3777") from error

    def _unreached(self, error: httpx.TransportError) -> ClientError:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return NotRunning(self.url)
        if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
            return Rejected(f"{self.url} cannot be used: {error} Use one like http://127.0.0.1:3777")
        return ConnectionLost(self.url, str(error) or type(error).__name__)

    def _understand(self, response: httpx.Response, answer: type[T]) -> T:
        if not response.is_success:
            self._fail(response)
        try:
            return TypeAdapter(answer).validate_json(response.content)
        except ValidationError as error:
            sign = error.errors(include_url=False, include_input=False)[0]["msg"]
            raise NotTinyAGI(self.url, one_line(sign)) from error

    def _fail(self, response: httpx.Response) -> NoReturn:
        status = response.status_code
        try:
            sentence = Error.model_validate_json(response.content).error
        except ValidationError:
            raise NotTinyAGI(self.url, f"status {status} without a reason") from None
        if status == 429:
            raise TooManyRequests(sentence, _seconds(response.headers.get("retry-after", "")))
        raise _KINDS.get(status, ServerFault)(sentence)


def segment(text: str | int) -> str:
    """A value as one step of a path, whatever characters it has."""
    return quote(str(text), safe="")


def _encoded(body: Body) -> bytes | None:
    if body is None:
        return None
    if isinstance(body, BaseModel):
        return body.model_dump_json(by_alias=True, exclude_unset=True).encode()
    return TypeAdapter(Mapping[str, object]).dump_json(body)


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdecimal() else 1.0
