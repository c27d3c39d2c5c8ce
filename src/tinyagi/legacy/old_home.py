"""Homes of the original: their files, and which home to import when the person names none."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.domain.errors import Conflict, InvalidInput
from tinyagi.legacy.old_database import open_old
from tinyagi.legacy.old_settings import is_of_original
from tinyagi.settings.errors import UnreadableSettings
from tinyagi.settings.home import Home
from tinyagi.settings.json_tree import JsonSyntaxError, decode
from tinyagi.system.processes import running_pid

TREES: Final = ("files", "channels", "chats")
"""Folders whose files are copied unchanged."""
_RECORDS: Final = ("schedules.json", "pairing.json", "tasks.json", "projects.json")
_DATABASES: Final = ("tasks.db", "tinyagi.db", "tinyclaw.db")

_PID_FILES: Final = ("tinyagi.pid", "tinyclaw.pid")


@dataclass(frozen=True, slots=True)
class OldHome:
    path: Path

    @property
    def is_tinyclaw(self) -> bool:
        """True for a home from before the program was renamed; its defaults differ."""
        return self.path.name == ".tinyclaw" or (self.path / "tinyclaw.db").is_file()

    @property
    def queues(self) -> tuple[Path, ...]:
        """Databases that may hold the queue, the more likely one first."""
        names = ("tinyclaw.db", "tinyagi.db") if self.path.name == ".tinyclaw" else ("tinyagi.db", "tinyclaw.db")
        return tuple(path for path in (self.path / name for name in names) if path.is_file())

    @property
    def board(self) -> Path | None:
        path = self.path / "tasks.db"
        return path if path.is_file() else None

    @property
    def files(self) -> tuple[Path, ...]:
        """Files to import, other than databases."""
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
        except JsonSyntaxError as error:
            raise UnreadableSettings(error.reason, path, line=error.line, column=error.column) from None

    def records(self, name: str) -> object:
        """The content of a JSON file of records, or None without one; raise InvalidInput with line and column."""
        path = self.path / name
        if not path.is_file():
            return None
        try:
            return json.loads(path.read_bytes().decode("utf-8-sig"))
        except json.JSONDecodeError as error:
            raise InvalidInput(
                f"{path} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}. "
                "Fix it or move it away; nothing was changed."
            ) from None
        except UnicodeDecodeError:
            raise InvalidInput(f"{path} is not UTF-8. Fix it or move it away; nothing was changed.") from None

    def is_original(self) -> bool:
        """True when the folder holds something that only the original writes."""
        if any((self.path / name).is_file() for name in (*_RECORDS, "tasks.db", "tinyclaw.db")):
            return True
        database = self.path / "tinyagi.db"
        if database.is_file():
            with open_old(database) as found:
                if found.is_original:
                    return True
        # Invalid settings prove nothing: a wrong value is more often a slip in a home of this version.
        settings = self.settings()
        return settings is not None and is_of_original(settings)


def find_source(home: Home, named: Path | None, environment: Mapping[str, str]) -> OldHome | None:
    """The named folder, else the home itself if it is an old one, else `~/.tinyclaw`, else None."""
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
    """The home of the original under its first name, TinyClaw, if there is one."""
    path = _absolute(Path(environment.get("TINYCLAW_HOME") or "~/.tinyclaw"))
    found = OldHome(path)
    return found if found.files or found.databases else None


def _absolute(path: Path) -> Path:
    try:
        # Two paths of one folder must not look like two homes.
        return path.expanduser().resolve()
    except (RuntimeError, OSError) as error:
        raise InvalidInput(f"{path} cannot be resolved: {error}. Name another folder.") from error


def refuse_while_running(*homes: Path) -> None:
    """Raise Conflict when a pid file in one of the homes names a live process."""
    for path in dict.fromkeys(homes):
        for name in _PID_FILES:
            pid = running_pid(path / name)
            if pid is not None:
                raise Conflict(
                    f"A daemon (process {pid}) is running on {path}. Stop it first: tinyagi stop; nothing was changed."
                )
