"""`migrated.json`: what has been taken over. What has been deleted since is in it, and does not come back."""

import json
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Final, Literal

from tinyagi.domain.errors import InvalidInput
from tinyagi.settings.home import Home
from tinyagi.system.files import put_in_place, write_aside

FILE: Final = "migrated.json"

Kind = Literal["projects", "tasks", "comments", "schedules", "pairings"]
_KINDS: Final[tuple[Kind, ...]] = ("projects", "tasks", "comments", "schedules", "pairings")
BEGUN: Final = "begun"
DONE: Final = "done"


class Ledger:
    """The file of one home. Records are noted after they are stored: what is lost in between is found by its id."""

    def __init__(self, home: Home) -> None:
        self._path = home.path / FILE
        # It speaks of rows in the database: without one it has nothing to say.
        found = _read(self._path) if home.database.exists() else {}
        databases = found.get("databases")
        self._databases = dict(databases) if isinstance(databases, Mapping) else {}
        self._taken: dict[Kind, set[str]] = {kind: _texts(found.get(kind)) for kind in _KINDS}

    def taken(self, kind: Kind) -> Set[str]:
        """Ids of the old home; of schedules the labels, of paired people channel and id."""
        return self._taken[kind]

    def take(self, records: Mapping[Kind, Iterable[str]]) -> None:
        """Durable when this returns."""
        for kind, ids in records.items():
            self._taken[kind].update(ids)
        self._write()

    def database(self, source: Path) -> str:
        """`begun` when its copy was about to take its place, `done` when it has, else empty."""
        return str(self._databases.get(str(source), ""))

    def mark_database(self, source: Path, state: str) -> None:
        """Durable when this returns."""
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
        raise InvalidInput(f"{path} is not what a takeover writes. Restore it, or move it away to begin anew.")
    return found


def _texts(found: object) -> set[str]:
    return {str(one) for one in found} if isinstance(found, list) else set()
