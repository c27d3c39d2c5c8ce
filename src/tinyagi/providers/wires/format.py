"""What the formats of HTTP endpoints have in common: a call to send, and an answer that grows as it arrives."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import httpx

from tinyagi.domain.errors import TinyAGIError
from tinyagi.domain.event_stream import ServerEvent
from tinyagi.domain.messages import Usage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.texts import clean, one_line
from tinyagi.providers.base import RunFailed, RunRequest

PROVIDER: Final = "api"


@dataclass(frozen=True, slots=True)
class Call:
    """One request to an endpoint."""

    url: httpx.URL
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, object]
    optional: frozenset[str]
    """Fields of the body that an endpoint may not know; the answer comes without them as well."""

    def without_fields_named_in(self, text: str) -> "Call | None":
        """Return the call without its optional fields when the text complains of one of them, else None."""
        if not any(name in text for name in self.optional):
            return None
        return replace(
            self,
            body={name: value for name, value in self.body.items() if name not in self.optional},
            optional=frozenset(),
        )


class StreamError(TinyAGIError):
    """The endpoint told of an error inside its stream; `error` is the JSON that says which."""

    def __init__(self, error: object) -> None:
        super().__init__("the stream holds an error")
        self.error = error


@dataclass(slots=True)
class Answer:
    """What has arrived so far."""

    longest: int
    model: str
    """What was asked, until the endpoint tells which one answers."""
    stop: str = ""
    """Why the model stopped, in the endpoint's word; empty while it goes on."""
    finished: bool = False
    """The text is whole, whatever becomes of the connection now."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_tokens: int | None = None
    _pieces: list[str] = field(default_factory=list)
    _length: int = 0
    _told: int = 0

    def say(self, text: str) -> None:
        """Add text; raise RunFailed when the answer gets too long."""
        if not text:
            return
        self._pieces.append(text)
        self._length += len(text)
        if self._length > self.longest:
            reason = f"the answer is longer than {self.longest:,} characters and was broken off"
            raise RunFailed(Failure(FailureKind.MESSAGE, reason, usage=self.spent))

    def end(self, stop: str) -> None:
        self.stop = self.stop or one_line(stop, 60)
        self.finished = True

    def news(self) -> str:
        """Return the text that has arrived since the last call."""
        pieces = self._pieces[self._told :]
        self._told = len(self._pieces)
        return clean("".join(pieces))

    @property
    def has_text(self) -> bool:
        return self._length > 0

    @property
    def text(self) -> str:
        return clean("".join(self._pieces)).strip()

    @property
    def usage(self) -> Usage:
        return Usage(
            self.input_tokens,
            self.output_tokens,
            self.cache_tokens,
            provider=PROVIDER,
            model=one_line(self.model, 200) or None,
        )

    @property
    def spent(self) -> Usage | None:
        """The usage of a run that failed; None when the endpoint told of none."""
        return None if self.input_tokens is self.output_tokens is None else self.usage


class Format(Protocol):
    """How one kind of endpoint is asked and understood."""

    official: str
    """Where it is found when the owner names no other."""
    key_name: str
    """The setting that holds the official endpoint's key."""
    key_variable: str
    """The variable that is used when the setting is empty."""

    def path(self, given: str) -> str:
        """Return the path to post to, for a base address with this path."""

    def headers(self, key: str, *, official: bool) -> dict[str, str]: ...

    def body(self, request: RunRequest, model: str, *, official: bool) -> dict[str, object]: ...

    def optional(self) -> frozenset[str]: ...

    def read(self, event: ServerEvent, answer: Answer) -> bool:
        """Add what the event tells; True when it was the last one. Raise StreamError for an error it tells of."""
