"""Which pending messages share a run with the primary. The store offers candidates, these rules choose."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from tinyagi.domain.messages import Message

CHAT_CHANNELS: Final = frozenset({"discord", "telegram", "whatsapp", "web"})
MAX_MESSAGES: Final = 20
MAX_CHARACTERS: Final = 32_000


class Batching(StrEnum):
    THREAD = "thread"
    """A person's waiting chat messages in one run, with the room posts for this agent."""
    ALL = "all"
    """Everything pending in the lane in one run, answered to the primary's sender."""
    NONE = "none"
    """Every message in a run of its own; only room posts that wake nobody come along, or nobody would read them."""


def joins_thread(primary: Message) -> bool:
    """True when other messages of the primary's thread may share its run: hand-offs and direct calls may not."""
    return primary.channel in CHAT_CHANNELS and primary.from_agent is None and not primary.failed_before


def coalesce(primary: Message, candidates: Iterable[Message]) -> tuple[Message, ...]:
    """Return the primary and then, in the order of their ids, the candidates that fit into its run.

    A message that failed before runs alone, and what follows it in its thread waits behind it. What does not fit any
    more closes the batch for its thread, so that nothing later in a thread overtakes it.
    """
    if primary.failed_before:
        return (primary,)
    chosen = [primary]
    characters = len(primary.message)
    waiting: set[str] = set()
    for candidate in sorted(candidates, key=lambda message: message.id):
        if candidate.id == primary.id or candidate.thread in waiting:
            continue
        full = len(chosen) >= MAX_MESSAGES or characters + len(candidate.message) > MAX_CHARACTERS
        if full or candidate.failed_before:
            waiting.add(candidate.thread)
            continue
        chosen.append(candidate)
        characters += len(candidate.message)
    return tuple(chosen)
