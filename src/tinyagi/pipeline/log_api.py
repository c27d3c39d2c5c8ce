"""The event log over the REST API, for workers on machines that do not have the file."""

import http.client
from collections.abc import Collection, Iterator
from typing import Final, Self
from urllib.parse import urlencode, urlsplit

import msgspec

from tinyagi.domain.errors import InvalidInput
from tinyagi.pipeline.errors import PipelineError
from tinyagi.store.sqlite.log_file import LogRow, Tally

TIMEOUT_SECONDS: Final = 30
FIRST_PAGE: Final = 100
LARGEST_PAGE: Final = 1_000
"""The most that the API gives at once."""
PAGE_BYTES: Final = 16 * 1024 * 1024


class _Event(msgspec.Struct, rename="camel", gc=False):
    id: int
    type: str
    version: int
    timestamp: int
    message_id: str | None
    conversation_id: str | None
    conversation_started_at: int | None
    agent_id: str | None
    payload: dict[str, object]


class _Connected(msgspec.Struct):
    head: int


class _Refusal(msgspec.Struct):
    error: str


_events = msgspec.json.Decoder(list[_Event]).decode
_connected = msgspec.json.Decoder(_Connected).decode
_refusal = msgspec.json.Decoder(_Refusal).decode
# The store's own encoding, so that a payload has the same bytes whichever way it was read.
_encode = msgspec.json.Encoder().encode


class LogApi:
    """One kept connection to a daemon; answers the same questions as LogFile."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidInput(f"{url} is no address of a daemon. Use one like http://127.0.0.1:3777.")
        self._url = url.rstrip("/")
        self._path = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        # http.client looks at no proxy of the environment, which is not meant for an address that somebody typed.
        self._connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def head(self) -> int:
        """The newest id that was ever given: the first frame of the live stream tells it."""
        answer = self._ask("/api/events/stream")
        try:
            for line in answer:
                if line.startswith(b"data:"):
                    return _connected(line.removeprefix(b"data:")).head
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            raise self._odd(str(error)) from error
        finally:
            # The stream has no end, so the connection cannot be used again.
            answer.close()
            self._connection.close()
        raise self._odd("a stream that says nothing")

    def first_after(self, after: int) -> int | None:
        """The oldest id beyond this one that is there."""
        events = self._page(after, 1, None)[0]
        return events[0][0] if events else None

    def end_of(self, after: int, rows: int, through: int) -> int:
        """An id with at most so many rows before it, beyond `after`; fewer only where ids are missing."""
        if through - after <= rows:
            return through
        first = self.first_after(after)
        return through if first is None else min(first - 1 + rows, through)

    def tally(self, after: int, through: int) -> Tally:
        """Count and sum of the ids; the API does not tell them, so the events are fetched once more."""
        ids = [row[0] for page in self.pages(after, through) for row in page]
        return Tally(len(ids), sum(ids))

    def pages(self, after: int, through: int, types: Collection[str] | None = None) -> Iterator[list[LogRow]]:
        """The events beyond `after` up to `through` in their order, of these types only if any are named."""
        only = next(iter(types)) if types is not None and len(types) == 1 else None
        limit = FIRST_PAGE
        while after < through:
            rows, size = self._page(after, limit, only)
            kept = [row for row in rows if row[0] <= through and (types is None or row[1] in types)]
            if kept:
                yield kept
            after = rows[-1][0] if len(rows) == limit else through
            # The API bounds a page by its rows alone: large texts are asked for in fewer at a time.
            limit = max(limit // 2, 1) if size > PAGE_BYTES else min(limit * 2, LARGEST_PAGE)

    def _page(self, after: int, limit: int, event_type: str | None) -> tuple[list[LogRow], int]:
        """The rows, and how many bytes they took."""
        query = {"after": after, "limit": limit} | ({} if event_type is None else {"type": event_type})
        try:
            body = self._ask(f"/api/events?{urlencode(query)}").read()
            return [_row(event) for event in _events(body)], len(body)
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            raise self._odd(str(error)) from error

    def _ask(self, target: str) -> http.client.HTTPResponse:
        try:
            answer = self._send(target)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # A kept connection that the daemon closed meanwhile; reading again changes nothing.
            self._connection.close()
            answer = self._send(target)
        if answer.status != 200:
            raise self._refused(answer)
        return answer

    def _send(self, target: str) -> http.client.HTTPResponse:
        try:
            self._connection.request("GET", self._path + target, headers=self._headers)
            return self._connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            raise
        except OSError as error:
            raise PipelineError(
                f"The daemon at {self._url} cannot be reached ({error}). Start it, or check the address."
            ) from error

    def _refused(self, answer: http.client.HTTPResponse) -> PipelineError:
        try:
            reason = _refusal(answer.read()).error
        except msgspec.DecodeError:
            return self._odd(f"status {answer.status} without a reason")
        return PipelineError(f"The daemon at {self._url} refused to give its events: {reason}")

    def _odd(self, sign: str) -> PipelineError:
        return PipelineError(
            f"{self._url} does not answer like a TinyAGI daemon of this version ({sign}). Check the address."
        )


def _row(event: _Event) -> LogRow:
    return (
        event.id,
        event.type,
        event.version,
        event.message_id,
        event.conversation_id,
        event.conversation_started_at,
        event.agent_id,
        _encode(event.payload).decode(),
        event.timestamp,
    )
