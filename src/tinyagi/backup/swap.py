"""Replaces files of a home as one step: a journal is written first, so that a crash cannot leave the step half done.

The journal is in the home while a restore works on it. Until everything is unpacked, it lists only what to clean up.
After that it lists the moves, and the next process that finds it makes the missing ones.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final, Self

from tinyagi.backup.manifest import BackupError
from tinyagi.settings.home import Home, make_private
from tinyagi.system.files import put_in_place, sync, write_aside

JOURNAL: Final = "restore.json"
"""The journal's name in the folder of replaced files; it is used to undo the restore."""


@dataclass(frozen=True, slots=True)
class Move:
    """Moves the new file to its place, and the file that was there to `kept`."""

    new: Path | None
    """None leaves the place empty."""
    place: Path
    kept: Path

    def make(self) -> None:
        """Make the parts of the move that are not done yet."""
        if self.new is None:
            if os.path.lexists(self.place) and not os.path.lexists(self.kept):
                _set_aside(self.place, self.kept)
        elif os.path.lexists(self.new):
            if os.path.lexists(self.place):
                _set_aside(self.place, self.kept)
            make_private(self.place.parent)
            self.new.rename(self.place)


@dataclass(frozen=True, slots=True)
class Journal:
    source: str
    """The archive, or the folder of an earlier restore."""
    kept: Path
    """The folder for the replaced files."""
    staging: tuple[Path, ...]
    """Folders to remove at the end."""
    moves: tuple[Move, ...] | None = None
    """None until everything is unpacked and checked."""

    def write(self, home: Home) -> None:
        moves = None if self.moves is None else [_move_fields(move) for move in self.moves]
        fields = {"source": self.source, "kept": str(self.kept), "staging": list(map(str, self.staging))}
        content = json.dumps({**fields, "moves": moves}, indent=1).encode()
        put_in_place(write_aside(home.restore_journal, content), home.restore_journal)

    @classmethod
    def read(cls, path: Path) -> Self:
        try:
            found: Mapping[str, Any] = json.loads(path.read_bytes())
            moves = found["moves"]
            return cls(
                source=str(found["source"]),
                kept=Path(found["kept"]),
                staging=tuple(map(Path, found["staging"])),
                moves=None if moves is None else tuple(_move(move) for move in moves),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BackupError(
                f"{path} cannot be read ({error}). It is the journal of an interrupted restore; check the files in "
                f"{path.parent}, then remove it."
            ) from error


def finish(home: Home) -> str | None:
    """Complete an interrupted restore, or clean up one that had changed nothing; return a sentence that says which.

    Only the process that holds the home's pid file lock may call this.
    """
    if not home.restore_journal.exists():
        return None
    journal = Journal.read(home.restore_journal)
    try:
        if journal.moves is None:
            _clear(journal)
            home.restore_journal.unlink()
            return (
                f"A restore from {journal.source} was interrupted before it changed anything; its files were removed."
            )
        _complete(home, journal, journal.moves)
    except OSError as error:
        raise BackupError(
            f"The restore from {journal.source} cannot be completed: {error}. Fix the cause and run it again; "
            f"{home.restore_journal} lists what is missing."
        ) from error
    return f"A restore from {journal.source} was interrupted; it is complete now."


def _complete(home: Home, journal: Journal, moves: tuple[Move, ...]) -> None:
    for move in moves:
        move.make()
    for folder in {home.path, *(move.place.parent for move in moves)}:
        sync(folder)
    _clear(journal)
    if any(os.path.lexists(move.kept) for move in moves):
        make_private(journal.kept)
        home.restore_journal.rename(journal.kept / JOURNAL)
        sync(journal.kept)
    else:
        home.restore_journal.unlink()
    sync(home.path)


def _clear(journal: Journal) -> None:
    for path in journal.staging:
        shutil.rmtree(path, ignore_errors=True)


def _set_aside(path: Path, kept: Path) -> None:
    """Move the file to `kept`, or to a numbered name if that exists: a start after a crash may have made a folder."""
    make_private(kept.parent)
    names = (kept if number == 1 else kept.with_name(f"{kept.name}.{number}") for number in count(1))
    path.rename(next(name for name in names if not os.path.lexists(name)))


def _move_fields(move: Move) -> dict[str, str | None]:
    return {
        "new": None if move.new is None else str(move.new),
        "place": str(move.place),
        "kept": str(move.kept),
    }


def _move(fields: Mapping[str, Any]) -> Move:
    new = fields["new"]
    return Move(None if new is None else Path(new), Path(fields["place"]), Path(fields["kept"]))
