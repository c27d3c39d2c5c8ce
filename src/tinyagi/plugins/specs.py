"""All that a plugin and its host tell each other: the hooks, their contexts, and what a hook may return."""

import difflib
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import pluggy

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.events import EVENT_TYPES, RecordedEvent
from tinyagi.domain.ids import AgentId, ConversationId, MessageId, TeamId

PROJECT: Final = "tinyagi"
ANY_EVENT: Final = "*"

Handler: TypeAlias = Callable[[RecordedEvent], object]
"""Told of an event; sync or async, what it returns is ignored."""

Changed: TypeAlias = str | tuple[str, Mapping[str, str]] | None
"""What a transform returns: the new text, the new text with metadata, or None to leave the text as it is."""

hookspec: Final = pluggy.HookspecMarker(PROJECT)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookContext:
    """Whose text a hook is handed."""

    agent: AgentId
    channel: str
    sender: str
    message_id: MessageId
    conversation_id: ConversationId
    sender_id: str | None = None
    team: TeamId | None = None
    from_agent: AgentId | None = None
    """The teammate who handed the message on; None for a person's."""
    attempt: int = 1
    home: Path = Path()
    """The installation's folder; the host fills it in."""


@dataclass(frozen=True, slots=True)
class PluginContext:
    """What `activate` is handed."""

    name: str
    home: Path
    """The installation's folder."""
    log: logging.Logger
    subscribe: Callable[[str, Handler], None] = field(repr=False)

    def on(self, event_type: str, handler: Handler) -> None:
        """Hand every event of this type, or with `*` every event, to the handler; raise InvalidInput for a typo."""
        if event_type != ANY_EVENT and event_type not in EVENT_TYPES:
            near = difflib.get_close_matches(event_type, EVENT_TYPES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "docs/reference/events.md lists them."
            raise InvalidInput(f"There is no event {event_type!r}: {hint}")
        if not _takes_one(handler):
            raise InvalidInput(f"The handler of {event_type!r} must be a function of one argument, the event.")
        self.subscribe(event_type, handler)


class Hooks(Protocol):
    """The hooks. A plugin defines those it wants as plain functions, sync or async, with these parameter names."""

    @hookspec
    def activate(self, ctx: PluginContext) -> Awaitable[None] | None:
        """Set up; called once, before anything else of the plugin is."""

    @hookspec
    def transform_incoming(self, text: str, ctx: HookContext) -> Changed | Awaitable[Changed]:
        """Change what the agent reads, at every run; the stored message stays as it was sent."""

    @hookspec
    def transform_outgoing(self, text: str, ctx: HookContext) -> Changed | Awaitable[Changed]:
        """Change what the person reads, before it is stored; metadata goes to the channel."""


@dataclass(frozen=True, slots=True)
class Transformed:
    """A text after all hooks, and their metadata put together."""

    text: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """A plugin as people see it in a list."""

    name: str
    origin: str
    """The path of its plugin.py, or its entry point and package."""
    sha256: str | None
    """Of its source; None when that could not be read."""
    error: str | None = None
    """Why it is skipped or switched off; None while it works."""


def _takes_one(handler: Handler) -> bool:
    if not callable(handler):
        return False
    try:
        inspect.signature(handler).bind(None)
    except TypeError:
        return False
    except ValueError:
        # Some built-in functions tell nothing of their parameters.
        return True
    return True
