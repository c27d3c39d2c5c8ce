"""What a takeover would do, as a value: made by reading, shown to a person, carried out or thrown away."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tinyagi.domain.board import Comment, Project, Task
from tinyagi.domain.pairing import PairedSender
from tinyagi.domain.schedules import NewSchedule
from tinyagi.settings.home import Home
from tinyagi.takeover.parts import Part


class DatabaseMove(StrEnum):
    """How the queue of the old home gets into the new one."""

    NONE = "none"
    """There is none, or it is there already, or there are two."""
    COPY = "copy"
    """As a copy, which the store brings to this version."""
    IN_PLACE = "in place"
    """It stands where it belongs; the store brings it to this version."""


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file of the old home, and its place below the new one."""

    source: Path
    place: Path
    size: int


@dataclass(frozen=True, slots=True)
class Plan:
    source: Path
    home: Home
    parts: tuple[Part, ...]
    conflicts: tuple[str, ...] = ()
    """Dotted names of settings that both have: the new home's count."""
    notes: tuple[str, ...] = ()
    settings: Mapping[str, object] | None = field(default=None, repr=False)
    """The whole settings as they are to be; None when the file stays as it is."""
    database: DatabaseMove = DatabaseMove.NONE
    queue_file: Path | None = None
    projects: tuple[Project, ...] = ()
    """Records that are not noted yet; some of them may be stored already, and stay as they are then."""
    tasks: tuple[Task, ...] = ()
    """From the top of a column to its end."""
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
        """True when something is to be stored, or only to be noted."""
        return bool(self.projects or self.tasks or self.comments or self.schedules or self.pairings)


@dataclass(frozen=True, slots=True)
class Report:
    """A plan and what became of it."""

    plan: Plan
    backup: Path | None = None
    """Where everything is as it was; None when nothing was changed."""

    @property
    def was_applied(self) -> bool:
        return self.backup is not None
