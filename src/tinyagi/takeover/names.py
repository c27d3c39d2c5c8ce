"""Prefixes and numbers, by which people know projects and tasks: an old one stays if it is free in the new home."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from tinyagi.domain.board import NO_PROJECT_PREFIX, prefix_from, prefixes_for
from tinyagi.domain.errors import InvalidInput
from tinyagi.takeover.rows import OldProject
from tinyagi.takeover.state import State


class Names:
    """What is free on a board; whatever is given is free no more."""

    def __init__(self, state: State) -> None:
        self._prefixes = {NO_PROJECT_PREFIX, *(project.prefix for project in state.projects)}
        self._identifiers = {task.identifier for task in state.tasks}

    def prefix(self, old: OldProject) -> str:
        """The old prefix, else one that is made from the name."""
        wanted = chain(_chosen(old), prefixes_for(old.name))
        prefix = next(one for one in wanted if one not in self._prefixes)
        self._prefixes.add(prefix)
        return prefix

    def number(self, prefix: str, old: int) -> int:
        """The old number, or 0 without one or when it is taken: then the store gives the next one."""
        identifier = f"{prefix}-{old}"
        if not old or identifier in self._identifiers:
            return 0
        self._identifiers.add(identifier)
        return old


def _chosen(old: OldProject) -> Iterator[str]:
    with suppress(InvalidInput):
        yield prefix_from(old.prefix or "")
