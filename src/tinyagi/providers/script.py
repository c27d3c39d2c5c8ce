"""The script of a scripted agent: `script.toml`, read and checked. What a reply does is the provider's."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Final

import msgspec

from tinyagi.domain.errors import TinyAGIError

FILE_NAME: Final = "script.toml"

_MAX_FILE: Final = 1_048_576
_MAX_PATTERN: Final = 1_000
_SEARCHED: Final = 20_000
"""How much of a prompt a pattern sees: a careless pattern must not hold up the daemon for long."""

_DAY: Final = 86_400
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=_DAY)]
_Tokens = Annotated[int, msgspec.Meta(ge=0, le=10**12)]


class BrokenScript(TinyAGIError):
    """The script cannot be used; the message names the place in it."""


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One `[[reply]]` table: when it fits, what it does meanwhile, and exactly one way to end."""

    when: Annotated[str, msgspec.Meta(max_length=_MAX_PATTERN)] | None = None
    attempts: list[Annotated[int, msgspec.Meta(ge=1)]] | None = None
    say: str | None = None
    fail: str | None = None
    unavailable: str | None = None
    retry_after_seconds: _Seconds | None = None
    steps: list[str] = []
    seconds: _Seconds = 0.0
    input_tokens: _Tokens = 0
    output_tokens: _Tokens = 0
    cost: Annotated[float, msgspec.Meta(ge=0, le=10**9)] | None = None

    def fits(self, prompt: str, attempt: int) -> bool:
        if self.attempts is not None and attempt not in self.attempts:
            return False
        return self.when is None or re.search(self.when, prompt[:_SEARCHED]) is not None


# msgspec works a class out on its first use. Agents that read their scripts at the same moment, each in a thread, would
# do so together, and the process would die of it; here there is one thread.
msgspec.convert({}, Reply)


def read_script(path: Path) -> tuple[Reply, ...] | None:
    """Return the replies in order, or None when there is no script; raise BrokenScript when it cannot be used."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BrokenScript(f"{path.name} cannot be read: {error.strerror}") from error
    if len(content) > _MAX_FILE:
        raise BrokenScript(f"{path.name} is larger than {_MAX_FILE:,} bytes")
    try:
        tables = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise BrokenScript(f"{path.name} is no TOML: {error}") from error
    return _replies(tables, path.name)


def _replies(tables: dict[str, object], name: str) -> tuple[Reply, ...]:
    replies = tables.pop("reply", [])
    if tables:
        raise BrokenScript(f"{name} has an unknown key {next(iter(tables))!r}: it is a list of [[reply]] tables")
    if not isinstance(replies, list):
        raise BrokenScript(f"{name} has a single [reply] table: write [[reply]]")
    return tuple(_reply(table, f"{name}, reply {number}") for number, table in enumerate(replies, 1))


def _reply(table: object, place: str) -> Reply:
    try:
        reply = msgspec.convert(table, Reply)
        re.compile(reply.when or "")
    except msgspec.ValidationError as error:
        raise BrokenScript(f"{place}: {error}") from error
    except (re.error, RecursionError, OverflowError) as error:
        raise BrokenScript(f"{place}: `when` is no regular expression: {error}") from error
    if sum(end is not None for end in (reply.say, reply.fail, reply.unavailable)) != 1:
        raise BrokenScript(f"{place}: give exactly one of `say`, `fail` and `unavailable`")
    if reply.retry_after_seconds is not None and reply.unavailable is None:
        raise BrokenScript(f"{place}: `retry_after_seconds` goes with `unavailable`")
    return reply
