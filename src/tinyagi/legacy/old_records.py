"""Parses the original's records leniently: names in snake_case or camelCase, instants as numbers or ISO texts."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from tinyagi.legacy.plan import Skipped

OldRow = Mapping[str, object]

_TOO_LARGE: Final = 2**53
"""From here on the original's numbers were not exact."""


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
    """0 when the record is older than task numbers."""
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


Record = TypeVar("Record", OldProject, OldTask, OldComment)


def parse_rows(found: object, parse: Callable[[OldRow], Record | str], kind: str) -> tuple[list[Record], list[Skipped]]:
    """Each record once, and the entries that are not valid or occur twice."""
    records: dict[str, Record] = {}
    left = []
    for place, row in objects(found):
        record = "it is not an object" if row is None else parse(row)
        if isinstance(record, str):
            left.append(Skipped(f"{kind}, {place}", record))
        elif record.id in records:
            left.append(Skipped(record.id, "it occurs twice; the first one counts"))
        else:
            records[record.id] = record
    return list(records.values()), left


def value(row: OldRow, name: str) -> object:
    """The value under a snake_case name, or under the same name in camelCase."""
    found = row.get(name)
    return row.get(re.sub(r"_([a-z])", lambda match: match[1].upper(), name)) if found is None else found


def text(row: OldRow, name: str) -> str:
    """A text, or a number as text, because chat ids occur as both; empty when there is neither."""
    found = value(row, name)
    if isinstance(found, str):
        return found.strip()
    return str(found) if isinstance(found, int) and not isinstance(found, bool) else ""


def number(row: OldRow, name: str) -> int:
    """A whole number within the original's range; 0 when there is none."""
    found = value(row, name)
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) < _TOO_LARGE else 0


def milliseconds(row: OldRow, name: str) -> int | None:
    """Milliseconds since 1970; None when the value is missing or not an instant."""
    found = value(row, name)
    if isinstance(found, int | float) and not isinstance(found, bool):
        if not abs(found) < _TOO_LARGE:
            return None
        # 1e12 milliseconds is 2001, and no record is older, so a smaller number is in seconds.
        return int(found * 1000) if abs(found) < 1e12 else int(found)
    if not isinstance(found, str):
        return None
    try:
        # A time without a zone is local time, as in the original.
        return int(datetime.fromisoformat(found.strip()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def flag(row: OldRow, name: str, default: bool) -> bool:
    found = value(row, name)
    if isinstance(found, str):
        return found.strip().lower() not in {"false", "0", "no", ""}
    return default if found is None else bool(found)


def objects(found: object) -> Iterator[tuple[str, OldRow | None]]:
    """The entries of a list, or of an object with their names as ids; None for an entry that is not an object."""
    if isinstance(found, Mapping):
        for name, entry in found.items():
            yield str(name), {"id": name, **entry} if isinstance(entry, Mapping) else None
    elif isinstance(found, Iterable) and not isinstance(found, str | bytes):
        for place, entry in enumerate(found, start=1):
            yield f"entry {place}", entry if isinstance(entry, Mapping) else None


def project(row: OldRow) -> OldProject | str:
    """The project, or the problem in words."""
    if not text(row, "id") or not text(row, "name"):
        return "it has no id or no name"
    return OldProject(
        id=text(row, "id"),
        name=text(row, "name"),
        description=text(row, "description"),
        prefix=text(row, "prefix").upper() or None,
        color=text(row, "color") or None,
        is_archived=text(row, "status") == "archived",
        created_at=milliseconds(row, "created_at"),
        updated_at=milliseconds(row, "updated_at"),
    )


def task(row: OldRow) -> OldTask | str:
    """The task, or the problem in words."""
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
        created_at=milliseconds(row, "created_at"),
        updated_at=milliseconds(row, "updated_at"),
    )


def comment(row: OldRow) -> OldComment | str:
    """The comment, or the problem in words."""
    if not text(row, "id") or not text(row, "task_id") or not text(row, "content"):
        return "it has no id, no task or no text"
    return OldComment(
        id=text(row, "id"),
        task_id=text(row, "task_id"),
        author=text(row, "author") or "user",
        author_type="agent" if text(row, "author_type") == "agent" else "user",
        content=text(row, "content"),
        created_at=milliseconds(row, "created_at"),
    )
