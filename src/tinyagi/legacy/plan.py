"""The plan of an import from an old home, its report, and `migrated.json`, the ledger of imported records."""

import json
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from tinyagi.domain.board import Comment, Project, Task
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.pairing import PairedSender
from tinyagi.domain.schedules import NewSchedule
from tinyagi.settings.home import Home
from tinyagi.system.files import put_in_place, write_aside

LEDGER_NAME: Final = "migrated.json"

RecordKind = Literal["projects", "tasks", "comments", "schedules", "pairings"]
_KINDS: Final[tuple[RecordKind, ...]] = ("projects", "tasks", "comments", "schedules", "pairings")
BEGUN: Final = "begun"
DONE: Final = "done"


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that is not imported, and the reason in words."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlanPart:
    """One kind of records: how many are imported, how many the home already has, and which are skipped."""

    name: str
    taken: int = 0
    there: int = 0
    skipped: tuple[Skipped, ...] = ()
    names: tuple[str, ...] = ()
    """Names of the imported ones, where names say more than a number."""

    @property
    def is_empty(self) -> bool:
        return not (self.taken or self.there or self.skipped)


class DatabaseMove(StrEnum):
    """How the queue of the old home gets into the new one."""

    NONE = "none"
    """There is no old queue, it is already imported, or the new home has its own."""
    COPY = "copy"
    """The store migrates a copy to this version."""
    IN_PLACE = "in place"
    """The old home is the new one; the store migrates the database itself."""


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file of the old home, and its path relative to the new one."""

    source: Path
    place: Path
    size: int


@dataclass(frozen=True, slots=True)
class ImportPlan:
    source: Path
    home: Home
    parts: tuple[PlanPart, ...]
    conflicts: tuple[str, ...] = ()
    """Dotted names of settings that differ between the homes; the new home's value stays."""
    notes: tuple[str, ...] = ()
    settings: Mapping[str, object] | None = field(default=None, repr=False)
    """The whole settings after the import; None when the file stays unchanged."""
    database: DatabaseMove = DatabaseMove.NONE
    queue_file: Path | None = None
    projects: tuple[Project, ...] = ()
    """Records that the ledger does not list. Some may be stored already; those stay unchanged."""
    tasks: tuple[Task, ...] = ()
    """In the order of their columns, top first."""
    comments: tuple[Comment, ...] = ()
    schedules: tuple[NewSchedule, ...] = ()
    pairings: tuple[PairedSender, ...] = ()
    files: tuple[FileCopy, ...] = ()

    @property
    def in_place(self) -> bool:
        """True when the old home is the new one."""
        return self.source == self.home.path

    @property
    def changes_anything(self) -> bool:
        return any(part.taken for part in self.parts) or self.settings is not None or self.has_records

    @property
    def has_records(self) -> bool:
        """True when there are records to store, or only to list in the ledger."""
        return bool(self.projects or self.tasks or self.comments or self.schedules or self.pairings)


@dataclass(frozen=True, slots=True)
class ImportReport:
    """A plan and its result."""

    plan: ImportPlan
    backup: Path | None = None
    """The backup of both homes from before the import; None when nothing was changed."""

    @property
    def was_applied(self) -> bool:
        return self.backup is not None


class ImportLedger:
    """`migrated.json` of one home. Imported records stay listed after they are deleted, so they do not come back.

    Records are listed after they are stored; after a crash in between, the store finds them by id.
    """

    def __init__(self, home: Home) -> None:
        self._path = home.path / LEDGER_NAME
        # The ledger describes rows of the database and is meaningless without it.
        found = _read(self._path) if home.database.exists() else {}
        databases = found.get("databases")
        self._databases = dict(databases) if isinstance(databases, Mapping) else {}
        self._taken: dict[RecordKind, set[str]] = {kind: _texts(found.get(kind)) for kind in _KINDS}

    def taken(self, kind: RecordKind) -> Set[str]:
        """Ids in the old home; labels for schedules, channel and id for paired people."""
        return self._taken[kind]

    def take(self, records: Mapping[RecordKind, Iterable[str]]) -> None:
        """List the records as imported; durable on return."""
        for kind, ids in records.items():
            self._taken[kind].update(ids)
        self._write()

    def database(self, source: Path) -> str:
        """`begun` before the copy replaces the home's database, `done` afterwards, else empty."""
        return str(self._databases.get(str(source), ""))

    def mark_database(self, source: Path, state: str) -> None:
        """Set the state of a database; durable on return."""
        self._databases[str(source)] = state
        self._write()

    def _write(self) -> None:
        raw = {"databases": self._databases, **{str(kind): sorted(ids) for kind, ids in self._taken.items()}}
        content = f"{json.dumps(raw, indent=2, ensure_ascii=False)}\n".encode()
        put_in_place(write_aside(self._path, content), self._path)


def _read(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInput(
            f"{path} is not a valid list of imported records. Restore it, or move it away to start over."
        )
    return found


def _texts(found: object) -> set[str]:
    return {str(one) for one in found} if isinstance(found, list) else set()
