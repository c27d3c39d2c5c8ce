"""The event log as a source: the database file, or the REST API for workers on machines without the file.

Imports neither Spark nor Delta, because tasks import it.
"""

import http.client
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, Self
from urllib.parse import urlencode, urlsplit

import msgspec

from tinyagi.domain.errors import InvalidInput
from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.manifest import FORMAT, LAKE_MANIFEST, LOG, read_manifest, table_folder
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.store.event_reader import EventLogReader, LogRow, RangeCount

TIMEOUT_SECONDS: Final = 30
FIRST_PAGE: Final = 100
LARGEST_PAGE: Final = 1_000
"""The API's own limit."""
PAGE_BYTES: Final = 16 * 1024 * 1024

SOURCE_NAME: Final = "tinyagi_events"
PARTITIONS: Final = 2
_CURSOR: Final = "lake"
"""The durable reader of the event log that the pipeline acknowledges."""


def has_nothing_to_do(lake: Path, database: Path) -> bool:
    """True when a run has nothing to do.

    Every table has all events, no killed run left a newer version, and the log knows how far the lake is.
    """
    manifest = read_manifest(lake / LAKE_MANIFEST)
    if manifest is None or manifest.format != FORMAT or manifest.tables.keys() != TABLES.keys():
        return False
    with EventLogReader(database) as log:
        is_seen = manifest.through_id == log.head() == log.position(_CURSOR)
    return is_seen and not any(
        (table_folder(lake, name) / LOG / f"{pin.version + 1:020}.json").exists()
        for name, pin in manifest.tables.items()
    )


@dataclass(frozen=True, slots=True)
class LogSource:
    """The event log of one home, by the options of the Spark source `tinyagi_events`."""

    options: Mapping[str, str]

    def tally(self, after: int, through: int) -> tuple[int, int]:
        """Count and id sum of the events after `after`, up to and including `through`."""
        with Options.parse(self.options).open() as log:
            found = log.tally(after, through)
        return found.count, found.id_sum

    def end_of(self, after: int, rows: int, through: int) -> int:
        """An id with at most `rows` events between it and `after`."""
        with Options.parse(self.options).open() as log:
            return log.end_of(after, rows, through)

    def head(self) -> int:
        """The newest id ever assigned."""
        with Options.parse(self.options).open() as log:
            return log.head()

    def has(self, number: int, kind: str, created_at: int) -> bool:
        """False when this id is beyond the head or names a different event; a pruned event counts as present."""
        with Options.parse(self.options).open() as log:
            if number > log.head():
                return False
            page = next(log.pages(number - 1, number), None)
        return page is None or (page[0][1], page[0][8]) == (kind, created_at)

    def first(self) -> int | None:
        """The oldest id that is not pruned."""
        with Options.parse(self.options).open() as log:
            return log.first_after(0)


class EventLogAccess(AbstractContextManager["EventLogAccess"], Protocol):
    """The event log, by file (EventLogReader) or by API (LogApi)."""

    def head(self) -> int: ...
    def first_after(self, after: int) -> int | None: ...
    def end_of(self, after: int, rows: int, through: int) -> int: ...
    def tally(self, after: int, through: int) -> RangeCount: ...
    def pages(self, after: int, through: int, types: Collection[str] | None = None) -> Iterator[list[LogRow]]: ...


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the Spark source: where the log is, by file or by address, and which part to read."""

    db: Path | None
    url: str | None
    token: str | None
    partitions: int
    initial: int
    max_rows: int | None
    after: int
    through: int | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Raise InvalidInput for an unknown option or a wrong value."""
        unknown = sorted(set(options) - set(cls.__slots__))
        if unknown:
            raise InvalidInput(f"{SOURCE_NAME} has no option {unknown[0]}. It has {', '.join(cls.__slots__)}.")
        db, url = options.get("db"), options.get("url")
        if bool(db) == bool(url):
            raise InvalidInput(f"{SOURCE_NAME} reads a file or an address. Set either the option db or the option url.")
        return cls(
            db=Path(db) if db else None,
            url=url or None,
            token=options.get("token"),
            partitions=_number(options, "partitions", 1) or PARTITIONS,
            initial=_number(options, "initial", 0) or 0,
            max_rows=_number(options, "max_rows", 1),
            after=_number(options, "after", 0) or 0,
            through=_number(options, "through", 0),
        )

    def open(self) -> EventLogAccess:
        """Open a new connection: options can be pickled for Spark's workers, connections cannot."""
        if self.db is not None:
            return EventLogReader(self.db)
        return LogApi(self.url or "", self.token)


class LogApi:
    """The log through one persistent connection to a daemon."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidInput(f"{url} is not a daemon's address. Use one like http://127.0.0.1:3777.")
        self._url = url.rstrip("/")
        self._path = parts.path.rstrip("/")
        self._headers = {"Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        # http.client ignores proxies of the environment, which are not meant for an explicit address.
        self._connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def head(self) -> int:
        """The newest id ever assigned, from the first frame of the live stream."""
        response = self._get("/api/events/stream")
        try:
            for line in response:
                if line.startswith(b"data:"):
                    return _connected(line.removeprefix(b"data:")).head
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            raise self._unexpected(str(error)) from error
        finally:
            # The stream never ends, so the connection cannot be reused.
            response.close()
            self._connection.close()
        raise self._unexpected("an empty event stream")

    def first_after(self, after: int) -> int | None:
        """The oldest id after this one that is not pruned."""
        events = self._page(after, 1, None)[0]
        return events[0][0] if events else None

    def end_of(self, after: int, rows: int, through: int) -> int:
        """An id with at most `rows` events between it and `after`; fewer only where ids are missing."""
        if through - after <= rows:
            return through
        first = self.first_after(after)
        return through if first is None else min(first - 1 + rows, through)

    def tally(self, after: int, through: int) -> RangeCount:
        """Count and sum of the ids. The API does not offer them, so this fetches the events again."""
        ids = [row[0] for page in self.pages(after, through) for row in page]
        return RangeCount(len(ids), sum(ids))

    def pages(self, after: int, through: int, types: Collection[str] | None = None) -> Iterator[list[LogRow]]:
        """The events after `after`, up to and including `through`, in order; only of these types, if options."""
        only = next(iter(types)) if types is not None and len(types) == 1 else None
        limit = FIRST_PAGE
        while after < through:
            rows, size = self._page(after, limit, only)
            kept = [row for row in rows if row[0] <= through and (types is None or row[1] in types)]
            if kept:
                yield kept
            after = rows[-1][0] if len(rows) == limit else through
            # The API limits a page by rows only, so ask for fewer rows when texts are large.
            limit = max(limit // 2, 1) if size > PAGE_BYTES else min(limit * 2, LARGEST_PAGE)

    def _page(self, after: int, limit: int, event_type: str | None) -> tuple[list[LogRow], int]:
        """The rows, and the size of the response in bytes."""
        query = {"after": after, "limit": limit} | ({} if event_type is None else {"type": event_type})
        try:
            body = self._get(f"/api/events?{urlencode(query)}").read()
            return [_row(event) for event in _events(body)], len(body)
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            raise self._unexpected(str(error)) from error

    def _get(self, target: str) -> http.client.HTTPResponse:
        try:
            response = self._send(target)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            # The daemon closed the idle connection. A read is safe to repeat.
            self._connection.close()
            response = self._send(target)
        if response.status != 200:
            raise self._refused(response)
        return response

    def _send(self, target: str) -> http.client.HTTPResponse:
        try:
            self._connection.request("GET", self._path + target, headers=self._headers)
            return self._connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            raise
        except OSError as error:
            raise PipelineError(
                f"Cannot reach the daemon at {self._url} ({error}). Start it, or check the address."
            ) from error

    def _refused(self, response: http.client.HTTPResponse) -> PipelineError:
        try:
            reason = _refusal(response.read()).error
        except msgspec.DecodeError:
            return self._unexpected(f"status {response.status} without a reason")
        return PipelineError(f"The daemon at {self._url} refused to send its events: {reason}")

    def _unexpected(self, what: str) -> PipelineError:
        return PipelineError(
            f"{self._url} does not response like a TinyAGI daemon of this version ({what}). Check the address."
        )


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


# The store's own encoding: a payload has the same bytes from the file and from the API.
_encode = msgspec.json.Encoder().encode


_events = msgspec.json.Decoder(list[_Event]).decode
_connected = msgspec.json.Decoder(_Connected).decode
_refusal = msgspec.json.Decoder(_Refusal).decode


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


def _number(options: Mapping[str, str], name: str, least: int) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise InvalidInput(f"The option {name} of {SOURCE_NAME} is {text!r}. Use a whole number, {least} or more.")
    return int(text)
