"""The original's records as values, read with patience: names in either case, instants as numbers or as ISO texts."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from tinyagi.takeover.parts import Skipped

Row = Mapping[str, object]

_TOO_LARGE: Final = 2**53
"""From here on the original could not count."""


@dataclass(frozen=True, slots=True)
class OldProject:
    id: str
    name: str
    description: str
    prefix: str | None
    color: str | None
    is_archived: bool
    created_at: int | None
    updated_at: int | None


@dataclass(frozen=True, slots=True)
class OldTask:
    id: str
    number: int
    """0 when the original's version did not count yet."""
    title: str
    description: str
    status: str
    assignee: str | None
    assignee_type: str
    project_id: str | None
    order: int
    created_at: int | None
    updated_at: int | None


@dataclass(frozen=True, slots=True)
class OldComment:
    id: str
    task_id: str
    author: str
    author_type: str
    content: str
    created_at: int | None


Thing = TypeVar("Thing", OldProject, OldTask, OldComment)


def understood(found: object, understand: Callable[[Row], Thing | str], kind: str) -> tuple[list[Thing], list[Skipped]]:
    """Each thing once, and what is none."""
    things: dict[str, Thing] = {}
    left = []
    for place, row in objects(found):
        thing = "it is no object" if row is None else understand(row)
        if isinstance(thing, str):
            left.append(Skipped(f"{kind}, {place}", thing))
        elif thing.id in things:
            left.append(Skipped(thing.id, "it is there twice; the first one counts"))
        else:
            things[thing.id] = thing
    return list(things.values()), left


def value(row: Row, name: str) -> object:
    """What stands under a snake_case name, or under the same name in camelCase."""
    found = row.get(name)
    return row.get(re.sub(r"_([a-z])", lambda match: match[1].upper(), name)) if found is None else found


def text(row: Row, name: str) -> str:
    """A text, or a number as a text (ids of chats are written both ways); empty when there is neither."""
    found = value(row, name)
    if isinstance(found, str):
        return found.strip()
    return str(found) if isinstance(found, int) and not isinstance(found, bool) else ""


def number(row: Row, name: str) -> int:
    """A whole number as the original could hold one; 0 when there is none."""
    found = value(row, name)
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) < _TOO_LARGE else 0


def instant(row: Row, name: str) -> int | None:
    """Milliseconds since 1970; None when there is nothing or it cannot be understood."""
    found = value(row, name)
    if isinstance(found, int | float) and not isinstance(found, bool):
        if not abs(found) < _TOO_LARGE:
            return None
        # Before 2001 in milliseconds is after 2001 in seconds, and nothing is as old as that.
        return int(found * 1000) if abs(found) < 1e12 else int(found)
    if not isinstance(found, str):
        return None
    try:
        # A time without a zone is the machine's own, as the original read it.
        return int(datetime.fromisoformat(found.strip()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def flag(row: Row, name: str, default: bool) -> bool:
    found = value(row, name)
    if isinstance(found, str):
        return found.strip().lower() not in {"false", "0", "no", ""}
    return default if found is None else bool(found)


def objects(found: object) -> Iterator[tuple[str, Row | None]]:
    """The entries of a list, or of an object by their names; None stands for what is no object."""
    if isinstance(found, Mapping):
        for name, entry in found.items():
            yield str(name), {"id": name, **entry} if isinstance(entry, Mapping) else None
    elif isinstance(found, Iterable) and not isinstance(found, str | bytes):
        for place, entry in enumerate(found, start=1):
            yield f"entry {place}", entry if isinstance(entry, Mapping) else None


def project(row: Row) -> OldProject | str:
    """The project, or in words what is wrong with it."""
    if not text(row, "id") or not text(row, "name"):
        return "it has no id or no name"
    return OldProject(
        id=text(row, "id"),
        name=text(row, "name"),
        description=text(row, "description"),
        prefix=text(row, "prefix").upper() or None,
        color=text(row, "color") or None,
        is_archived=text(row, "status") == "archived",
        created_at=instant(row, "created_at"),
        updated_at=instant(row, "updated_at"),
    )


def task(row: Row) -> OldTask | str:
    """The task, or in words what is wrong with it."""
    if not text(row, "id") or not text(row, "title"):
        return "it has no id or no title"
    return OldTask(
        id=text(row, "id"),
        number=max(number(row, "number"), 0),
        title=text(row, "title"),
        description=text(row, "description"),
        status=text(row, "status").lower().replace("-", "_") or "backlog",
        assignee=text(row, "assignee") or None,
        assignee_type=text(row, "assignee_type"),
        project_id=text(row, "project_id") or None,
        order=number(row, "sort_order"),
        created_at=instant(row, "created_at"),
        updated_at=instant(row, "updated_at"),
    )


def comment(row: Row) -> OldComment | str:
    """The comment, or in words what is wrong with it."""
    if not text(row, "id") or not text(row, "task_id") or not text(row, "content"):
        return "it has no id, no task or no text"
    return OldComment(
        id=text(row, "id"),
        task_id=text(row, "task_id"),
        author=text(row, "author") or "user",
        author_type="agent" if text(row, "author_type") == "agent" else "user",
        content=text(row, "content"),
        created_at=instant(row, "created_at"),
    )
