"""Homes of the original: what lies in them under which name, and which one is meant when nobody says."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.domain.errors import InvalidInput
from tinyagi.settings.errors import InvalidSettings, UnreadableSettings
from tinyagi.settings.home import Home
from tinyagi.settings.notation import Unreadable, decode
from tinyagi.settings.parse import parse
from tinyagi.takeover.databases import opened
from tinyagi.takeover.translate import sticks_by_object

TREES: Final = ("files", "channels", "chats")
"""Folders whose files are taken over as they are."""
_RECORDS: Final = ("schedules.json", "pairing.json", "tasks.json", "projects.json")
_DATABASES: Final = ("tasks.db", "tinyagi.db", "tinyclaw.db")


@dataclass(frozen=True, slots=True)
class OldHome:
    path: Path

    @property
    def is_tinyclaw(self) -> bool:
        """True for the program's first name, which had other defaults."""
        return self.path.name == ".tinyclaw" or (self.path / "tinyclaw.db").is_file()

    @property
    def queues(self) -> tuple[Path, ...]:
        """Databases that may hold the queue, the likelier one first."""
        names = ("tinyclaw.db", "tinyagi.db") if self.path.name == ".tinyclaw" else ("tinyagi.db", "tinyclaw.db")
        return tuple(path for path in (self.path / name for name in names) if path.is_file())

    @property
    def board(self) -> Path | None:
        path = self.path / "tasks.db"
        return path if path.is_file() else None

    @property
    def files(self) -> tuple[Path, ...]:
        """Files that hold what is taken over, other than databases."""
        found = (self.path / name for name in ("settings.json", *_RECORDS))
        return tuple(path for path in found if path.is_file())

    @property
    def databases(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.path / name for name in _DATABASES) if path.is_file())

    def settings(self) -> dict[str, object] | None:
        """The settings as JSON, or None without a file; raise UnreadableSettings with line and column."""
        path = self.path / "settings.json"
        if not path.is_file():
            return None
        try:
            return decode(path.read_bytes())
        except Unreadable as error:
            raise UnreadableSettings(error.reason, path, line=error.line, column=error.column) from None

    def records(self, name: str) -> object:
        """What a JSON file of records holds, or None without one; raise InvalidInput with line and column."""
        path = self.path / name
        if not path.is_file():
            return None
        try:
            return json.loads(path.read_bytes().decode("utf-8-sig"))
        except json.JSONDecodeError as error:
            raise InvalidInput(
                f"{path} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}. "
                "Mend it or move it away; nothing was changed."
            ) from None
        except UnicodeDecodeError:
            raise InvalidInput(f"{path} is not UTF-8. Mend it or move it away; nothing was changed.") from None

    def is_original(self) -> bool:
        """True when the folder holds something that only the original leaves."""
        if any((self.path / name).is_file() for name in (*_RECORDS, "tasks.db", "tinyclaw.db")):
            return True
        database = self.path / "tinyagi.db"
        if database.is_file():
            with opened(database) as found:
                if found.is_original:
                    return True
        return self._has_old_settings()

    def _has_old_settings(self) -> bool:
        """True for settings that this version refuses, though they are JSON, or would write otherwise."""
        raw = self.settings()
        if raw is None:
            return False
        with contextlib.suppress(InvalidSettings):
            parse(raw)
            return sticks_by_object(raw)
        return True


def find_source(home: Home, named: Path | None, environment: Mapping[str, str]) -> OldHome | None:
    """The folder that is named, else the home itself if it is an old one, else `~/.tinyclaw`; None when nothing is."""
    if named is not None:
        path = _absolute(named)
        if not path.is_dir():
            raise InvalidInput(f"There is no folder {path}. Name the old home with --from.")
        return OldHome(path)
    here = OldHome(_absolute(home.path))
    if here.path.is_dir() and here.is_original():
        return here
    there = tinyclaw_home(environment)
    return there if there is not None and there.path != here.path else None


def tinyclaw_home(environment: Mapping[str, str]) -> OldHome | None:
    """Where the original lives under its first name, if it does."""
    path = _absolute(Path(environment.get("TINYCLAW_HOME") or "~/.tinyclaw"))
    found = OldHome(path)
    return found if found.files or found.databases else None


def _absolute(path: Path) -> Path:
    try:
        # Two names of one folder must not look like two homes.
        return path.expanduser().resolve()
    except (RuntimeError, OSError) as error:
        raise InvalidInput(f"{path} leads nowhere: {error}. Name another folder.") from error
