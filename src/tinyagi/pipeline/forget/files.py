"""Files of a home that an erasing reaches: logs, backups, chats, attachments. And those that it does not."""

import json
import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from tinyagi.settings.home import Home

_SETTINGS: Final = re.compile(r"settings-.*\.json")
_HEADING: Final = re.compile(r"# Conversation (.+) of team \S+")
_SPARK: Final = "_spark"
_SHORTEST: Final = 3
"""Characters of a name that is looked for: what is shorter stands everywhere."""
_CHUNK: Final = 1024 * 1024


def remove_copies(home: Home) -> list[Path]:
    """Logs and copies of the database: a line or a page of them may hold anything, and nobody can tell.

    Copies of the settings stay; what they hold is told by `mentions`.
    """
    copies = [path for path in _entries(home.backups) if not _SETTINGS.fullmatch(path.name)]
    return [_remove(path) for path in (*_entries(home.logs), *copies)]


def remove_chats(home: Home, conversations: Collection[str]) -> list[Path]:
    """The Markdown files of these conversations."""
    return [_remove(path) for path in sorted(home.chats.glob("*/*.md")) if _conversation(path) in conversations]


def remove_attachments(home: Home, files: Collection[str]) -> tuple[list[Path], list[Path]]:
    """Attachments in the home's own folder, and those that lie elsewhere and are left."""
    folder = home.files.resolve()
    removed, left = [], []
    for path in sorted(Path(file) for file in files):
        if not path.is_file():
            continue
        if path.resolve().is_relative_to(folder):
            removed.append(_remove(path))
        else:
            left.append(path)
    return removed, left


def mentions(home: Home, words: Collection[str]) -> list[Path]:
    """Files of the home in which one of these words still stands, as far as that can be seen without unpacking them."""
    wanted = [word.encode() for word in words if len(word) >= _SHORTEST]
    if not wanted:
        return []
    files = (path for path in sorted(home.path.rglob("*")) if path.is_file() and not path.is_symlink())
    # What Spark writes while it works goes with its session.
    lasting = (path for path in files if not path.is_relative_to(home.lake / _SPARK))
    return [path for path in lasting if _holds(path, wanted)]


def paths_in(text: str) -> list[str]:
    """Of a JSON array of paths; other tools may have written anything there."""
    try:
        paths = json.loads(text)
    except ValueError:
        return []
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []


def _entries(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.iterdir())) if folder.is_dir() else iter(())


def _remove(path: Path) -> Path:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return path


def _conversation(path: Path) -> str | None:
    with path.open(encoding="utf-8", errors="replace") as file:
        heading = _HEADING.fullmatch(file.readline().rstrip("\n"))
    return None if heading is None else heading[1]


def _holds(path: Path, words: Collection[bytes]) -> bool:
    """Piece by piece: a database may be larger than the memory."""
    overlap = max(map(len, words)) - 1
    before = b""
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            if any(word in before + piece for word in words):
                return True
            before = (before + piece)[-overlap:] if overlap else b""
    return False
