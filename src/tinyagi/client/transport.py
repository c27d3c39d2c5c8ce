"""HTTP requests to the daemon: one connection pool, typed answers, and errors as ClientError."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NoReturn, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from tinyagi.api.base import Error
from tinyagi.api.messages import NotPairedError
from tinyagi.client.errors import (
    ClientError,
    ConflictError,
    ConnectionLost,
    NotFoundError,
    NotPaired,
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
_FILE: Final = httpx.Timeout(120, connect=5)
_CHUNK: Final = 256 * 1024
_BYTES: Final = "application/octet-stream"
_JSON: Final = {"Content-Type": "application/json"}
_DEFAULT_MAX_BODY: Final = 1_048_576
"""The default of `server.max_body_bytes`."""
_ERRORS: Final[Mapping[int, type[ClientError]]] = {
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
    """HTTP with one daemon. Every call raises ClientError."""

    def __init__(self, url: str, token: str | None, client_name: str) -> None:
        self.url = url.rstrip("/")
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if client_name:
            headers["X-TinyAGI-Client"] = client_name
        # The daemon is on this machine or at an explicit address, so ignore proxies of the environment.
        self._http = httpx.AsyncClient(base_url=self.url, headers=headers, timeout=_TIMEOUT, trust_env=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def get(self, path: str, answer: type[T], **query: str | int | None) -> T:
        try:
            response = await self._send("GET", path, query=query)
        except ConnectionLost:
            # The daemon may have closed a kept-alive connection; a GET is safe to repeat.
            response = await self._send("GET", path, query=query)
        return self._decode(response, answer)

    async def post(self, path: str, answer: type[T], body: Body = None) -> T:
        return self._decode(await self._send("POST", path, body=body), answer)

    async def put(self, path: str, answer: type[T], body: Body = None) -> T:
        return self._decode(await self._send("PUT", path, body=body), answer)

    async def delete(self, path: str, answer: type[T], **query: str | int | None) -> T:
        return self._decode(await self._send("DELETE", path, query=query), answer)

    async def upload(self, route: str, answer: type[T], file: Path, **query: str) -> T:
        """POST a file's bytes."""
        headers = {"Content-Type": _BYTES, "Content-Length": str(await asyncio.to_thread(_size, file))}
        try:
            sent = await self._http.post(route, params=query, content=_bytes_of(file), headers=headers, timeout=_FILE)
        except httpx.TransportError as error:
            raise self._connection_error(error) from error
        return self._decode(sent, answer)

    async def download(self, route: str, target: Path, **query: str) -> int:
        """Write the answer's bytes to a new file, which only its owner can read; return their number."""
        size = 0
        try:
            async with self._http.stream("GET", route, params=query, timeout=_FILE) as response:
                if response.status_code != 200:
                    await response.aread()
                    self._raise_for(response)
                with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    async for chunk in response.aiter_bytes():
                        size += file.write(chunk)
        except httpx.TransportError as error:
            raise self._connection_error(error) from error
        return size

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query, headers: Mapping[str, str], silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the answer's bytes as they arrive; a pause longer than `silence` seconds is a lost connection."""
        timeout = httpx.Timeout(silence, connect=5)
        params = {name: value for name, value in query.items() if value is not None}
        accept = {"Accept": "text/event-stream", **headers}
        try:
            async with self._http.stream("GET", path, params=params, headers=accept, timeout=timeout) as response:
                if response.status_code != 200:
                    await response.aread()
                    self._raise_for(response)
                if not response.headers.get("content-type", "").startswith("text/event-stream"):
                    raise NotTinyAGI(self.url, "not an event stream")
                yield response.aiter_bytes()
        except httpx.TransportError as error:
            raise self._connection_error(error) from error

    async def _send(self, method: str, path: str, *, query: Query | None = None, body: Body = None) -> httpx.Response:
        params = {name: value for name, value in (query or {}).items() if value is not None}
        content = _encode(body)
        try:
            return await self._http.request(
                method,
                path,
                params=params,
                content=content,
                # Also without a body: the server refuses every write that a plain web form could send.
                headers=None if method == "GET" else _JSON,
            )
        except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
            # The daemon answers 413 before it reads the body; the answer is often lost with the connection.
            if content is not None and len(content) > _DEFAULT_MAX_BODY:
                raise Rejected(_too_large(len(content))) from error
            raise self._connection_error(error) from error
        except httpx.TransportError as error:
            raise self._connection_error(error) from error
        except httpx.InvalidURL as error:
            raise Rejected(f"{self.url} is not a valid address: {error}. Use one like http://127.0.0.1:3777") from error

    def _connection_error(self, error: httpx.TransportError) -> ClientError:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return NotRunning(self.url)
        if isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError):
            return Rejected(f"{self.url} is not a usable address: {error} Use one like http://127.0.0.1:3777")
        return ConnectionLost(self.url, str(error) or type(error).__name__)

    def _decode(self, response: httpx.Response, answer: type[T]) -> T:
        if not response.is_success:
            self._raise_for(response)
        try:
            return TypeAdapter(answer).validate_json(response.content)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]["msg"]
            raise NotTinyAGI(self.url, one_line(problem)) from error

    def _raise_for(self, response: httpx.Response) -> NoReturn:
        status = response.status_code
        try:
            sentence = Error.model_validate_json(response.content).error
        except ValidationError:
            raise NotTinyAGI(self.url, f"status {status} without an error message") from None
        if status == 403 and (refused := _not_paired(response.content)) is not None:
            raise refused
        raise error_of(status, sentence, _seconds(response.headers.get("retry-after", "")))


def _size(file: Path) -> int:
    return file.stat().st_size


async def _bytes_of(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as opened:
        while chunk := await asyncio.to_thread(opened.read, _CHUNK):
            yield chunk


def _not_paired(body: bytes) -> NotPaired | None:
    try:
        found = NotPairedError.model_validate_json(body)
    except ValidationError:
        return None
    is_about_pairing = "is_new" in found.model_fields_set
    return NotPaired(found.error, found.code, is_new=found.is_new) if is_about_pairing else None


def error_of(status: int, sentence: str, retry_after: float | None) -> ClientError:
    """The error of an answer with this status."""
    if status == 429:
        return TooManyRequests(sentence, 1.0 if retry_after is None else retry_after)
    return _ERRORS.get(status, ServerFault)(sentence)


def segment(text: str | int) -> str:
    """Quote a value as one segment of a path."""
    return quote(str(text), safe="")


def _encode(body: Body) -> bytes | None:
    if body is None:
        return None
    try:
        if isinstance(body, BaseModel):
            return body.model_dump_json(by_alias=True, exclude_unset=True).encode()
        return TypeAdapter(Mapping[str, object]).dump_json(body)
    except PydanticSerializationError as error:
        raise Rejected("The text is not UTF-8. Convert it first.") from error


def _too_large(size: int) -> str:
    return (
        f"The daemon closed the connection while it received {size:,} bytes. It accepts at most "
        f"{_DEFAULT_MAX_BODY:,} bytes, unless server.max_body_bytes sets another limit. "
        "Send less, or send a file instead of its text."
    )


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdecimal() else 1.0
