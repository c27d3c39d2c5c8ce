"""What a reader of the stream wants to see: `?types=&agent=&conversation=&names=`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.events import EVENT_TYPES
from tinyagi.domain.texts import one_line
from tinyagi.server.frames import ALIASES, Frame

_TYPES: Final = {**{name: name for name in EVENT_TYPES}, **{alias: name for name, alias in ALIASES.items()}}


@dataclass(frozen=True, slots=True)
class Filter:
    """Readers with equal filters share the bytes that they are sent."""

    types: frozenset[str] | None = None
    agent: str | None = None
    conversation: str | None = None
    aliases: bool = True

    @classmethod
    def parse(cls, query: Mapping[str, Sequence[str]]) -> Self:
        """Parameters that nobody knows are ignored; raise InvalidInput for a type or a choice that nobody knows."""
        (names,) = query.get("names", ["both"])[-1:]
        if names not in {"both", "canonical"}:
            raise InvalidInput(f"names is both or canonical, not {one_line(names, 60)!r}.")
        types = frozenset(map(_type, _listed(query.get("types", ()))))
        return cls(types or None, _last(query, "agent"), _last(query, "conversation"), names == "both")

    def wants(self, frame: Frame) -> bool:
        return (
            (self.types is None or frame.type in self.types)
            and (self.agent is None or self.agent in frame.agents)
            and (self.conversation is None or frame.conversation == self.conversation)
        )

    def chunk(self, frames: Sequence[Frame]) -> bytes:
        """The frames that are wanted, under the names that are wanted."""
        if self.aliases:
            return b"".join([frame.both for frame in frames if self.wants(frame)])
        return b"".join([frame.canonical for frame in frames if self.wants(frame)])


def _listed(values: Sequence[str]) -> list[str]:
    return [name for value in values for part in value.split(",") if (name := part.strip())]


def _type(name: str) -> str:
    try:
        return _TYPES[name]
    except KeyError:
        raise InvalidInput(f"There is no event type {one_line(name, 60)!r}. See docs/reference/stream.md.") from None


def _last(query: Mapping[str, Sequence[str]], name: str) -> str | None:
    return query[name][-1] if name in query else None
