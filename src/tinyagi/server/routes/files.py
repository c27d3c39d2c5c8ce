"""The files folder over HTTP, for channels on other machines: store what people send, fetch what they get."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import StreamingResponse

from tinyagi.api.files import FileStored
from tinyagi.domain.errors import InvalidInput, NotFound
from tinyagi.engine.attachments import RECEIVED, safe_name
from tinyagi.server.dependencies import Services, ServicesDep
from tinyagi.server.errors import responses
from tinyagi.server.guard import file_too_large
from tinyagi.system.files import make_folder, open_below, sync

router = APIRouter(tags=["files"])

_CHUNK: Final = 256 * 1024
_BYTES: Final = "application/octet-stream"
_BINARY: Final = {"type": "string", "format": "binary"}


@router.post(
    "/api/files",
    responses=responses(413),
    openapi_extra={"requestBody": {"required": True, "content": {_BYTES: {"schema": _BINARY}}}},
)
async def store_file(
    services: ServicesDep, request: Request, name: Annotated[str, Query(min_length=1, max_length=255)]
) -> FileStored:
    """Store a file for a message; the body is its content, at most responses.max_file_megabytes."""
    largest = services.settings.current.responses.max_file_bytes
    folder = services.home.files / RECEIVED / token_hex(8)
    await asyncio.to_thread(_prepare, folder)
    path = folder / safe_name(name)
    try:
        size = await _write(request, path, largest)
    except BaseException:
        path.unlink(missing_ok=True)
        folder.rmdir()
        raise
    await asyncio.to_thread(sync, folder)
    return FileStored(path=str(path), size=size)


@router.get(
    "/api/files",
    responses={200: {"content": {_BYTES: {"schema": _BINARY}}, "description": "The file."}, **responses(404)},
    response_class=StreamingResponse,
)
async def fetch_file(
    services: ServicesDep, path: Annotated[str, Query(min_length=1, max_length=4_096)]
) -> StreamingResponse:
    """Fetch a file of the files folder, such as an attachment of a response."""
    opened = await asyncio.to_thread(_open, services, path)
    size = os.fstat(opened).st_size
    return StreamingResponse(_content(opened, size), media_type=_BYTES, headers={"content-length": str(size)})


def _prepare(folder: Path) -> None:
    make_folder(folder.parent, 0o700)
    folder.mkdir(0o700)


async def _write(request: Request, path: Path, largest: int) -> int:
    size = 0
    written = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(written, "wb") as file:
        async for chunk in request.stream():
            size += len(chunk)
            if size > largest:
                raise file_too_large(largest)
            await asyncio.to_thread(file.write, chunk)
        await asyncio.to_thread(_flush, file.fileno(), file.flush)
    return size


def _flush(descriptor: int, flush: Callable[[], None]) -> None:
    flush()
    os.fsync(descriptor)


def _open(services: Services, path: str) -> int:
    """Open a file of the files folder; every other path is not found, whether it exists or not."""
    folder = services.home.files.resolve()
    try:
        return open_below(folder, Path(path).resolve().relative_to(folder))
    except (OSError, RuntimeError, ValueError):
        raise NotFound("The files folder has no such file. It may have been removed with its message.") from None


async def _content(opened: int, size: int) -> AsyncIterator[bytes]:
    """Yield exactly `size` bytes: the answer has promised them."""
    with os.fdopen(opened, "rb") as file:
        while size > 0:
            chunk = await asyncio.to_thread(file.read, min(_CHUNK, size))
            if not chunk:
                raise InvalidInput("The file shrank while it was sent.")
            size -= len(chunk)
            yield chunk
