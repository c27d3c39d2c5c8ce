"""The contract between plugins and their host: hooks, contexts, and what a hook may return."""

import difflib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.events import EVENT_TYPES, RecordedEvent
from tinyagi.domain.ids import AgentId, ConversationId, MessageId, TeamId

ANY_EVENT: Final = "*"

Handler: TypeAlias = Callable[[RecordedEvent], object]
"""Called with an event; sync or async, its result is ignored."""

Changed: TypeAlias = str | tuple[str, Mapping[str, str]] | None
"""The result of a transform: the new text, the new text with metadata, or None to leave the text unchanged."""

MAX_TEXT: Final = 1_000_000
"""Most characters of a hook's text; a text that was longer before may keep its length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """The message that a hook's text belongs to."""

    agent: AgentId
    channel: str
    sender: str
    message_id: MessageId
    conversation_id: ConversationId
    sender_id: str | None = None
    team: TeamId | None = None
    from_agent: AgentId | None = None
    """The teammate that handed the message on; None for a person's message."""
    attempt: int = 1
    home: Path = Path()
    """The home folder; the host fills it in."""


@dataclass(frozen=True, slots=True)
class PluginContext:
    """The argument of `activate`."""

    name: str
    home: Path
    """The home folder."""
    log: logging.Logger
    subscribe: Callable[[str, Handler], None] = field(repr=False)

    def on(self, event_type: str, handler: Handler) -> None:
        """Call the handler with every event of this type, or with `*` every event; raise InvalidInput for a typo."""
        if event_type != ANY_EVENT and event_type not in EVENT_TYPES:
            near = difflib.get_close_matches(event_type, EVENT_TYPES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "docs/reference/events.md lists them."
            raise InvalidInput(f"There is no event {event_type!r}: {hint}")
        if not _takes_one(handler):
            raise InvalidInput(f"The handler of {event_type!r} must be a function of one argument, the event.")
        self.subscribe(event_type, handler)


class Hooks(Protocol):
    """The hooks. A plugin defines the ones it needs as plain functions, sync or async, with these parameter names."""

    def activate(self, ctx: PluginContext) -> Awaitable[None] | None:
        """Set up; called once, before any other function of the plugin."""

    def transform_incoming(self, text: str, ctx: HookContext) -> Changed | Awaitable[Changed]:
        """Change the text that the agent reads, in every run; the stored message stays as it was sent."""

    def transform_outgoing(self, text: str, ctx: HookContext) -> Changed | Awaitable[Changed]:
        """Change the text that the person reads, before it is stored; metadata goes to the channel."""


HOOKS: Final = {
    name: tuple(inspect.signature(hook).parameters)[1:]
    for name, hook in vars(Hooks).items()
    if inspect.isfunction(hook) and not name.startswith("_")
}
"""Parameters of each hook."""


@dataclass(frozen=True, slots=True)
class Transformed:
    """A text after all hooks, with their merged metadata."""

    text: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin in the list that people see."""

    name: str
    origin: str
    """The path of its plugin.py, or its entry point and package."""
    sha256: str | None
    """The hash of its source; None when the source could not be read."""
    error: str | None = None
    """Why it was skipped or switched off; None while it works."""


def _takes_one(handler: Handler) -> bool:
    if not callable(handler):
        return False
    try:
        inspect.signature(handler).bind(None)
    except TypeError:
        return False
    except ValueError:
        # Some built-in functions have no signature.
        return True
    return True


def check_result(result: object, *, original: str) -> Transformed | None:
    """The result as a text with metadata, None for unchanged; raise InvalidInput for anything else."""
    match result:
        case None:
            return None
        case str(text):
            return Transformed(_text(text, original))
        case tuple((str(text), Mapping() as metadata)):
            return Transformed(_text(text, original), {_entry(key): _entry(value) for key, value in metadata.items()})
    raise InvalidInput(f"It returned {_kind(result)}; return a text, (text, metadata) or None.")


def _text(text: str, original: str) -> str:
    if len(text) > max(MAX_TEXT, len(original)):
        raise InvalidInput(f"It returned {len(text):,} characters; {MAX_TEXT:,} is the most.")
    return _plain(text)


def _entry(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"Its metadata holds {_kind(value)}; keys and values must be texts.")
    return _plain(value)


def _plain(text: str) -> str:
    """The text as a plain str, not a subclass."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidInput("It returned half of a character (a lone surrogate), which cannot be stored.") from None
    return str.__str__(text)


def _kind(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(part).__name__ for part in value)})"
    return type(value).__name__
