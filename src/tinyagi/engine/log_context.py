"""Which run the current task works for, so that every line of the log can say it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from tinyagi.domain.messages import Claim, Message

_PRIMARY: Final[ContextVar[Message | None]] = ContextVar("primary message", default=None)
"""Tasks and threads that are started within the block see it too. Its fields are read when a line is written."""


@contextmanager
def about(claim: Claim) -> Iterator[None]:
    """Whatever is logged within the block is about this run."""
    token = _PRIMARY.set(claim.primary)
    try:
        yield
    finally:
        _PRIMARY.reset(token)


def current() -> Mapping[str, str]:
    """Agent, message and conversation of the run that is carried out here; empty outside of one."""
    message = _PRIMARY.get()
    if message is None:
        return {}
    return {"agent": message.agent, "message_id": message.message_id, "conversation_id": message.conversation_id}
