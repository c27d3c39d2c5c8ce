"""Files of a home during an erasure: deletes logs, backups, chats and attachments, and finds remaining mentions."""

import re
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from tinyagi.engine.chat_files import belongs_to
from tinyagi.pipeline.lake import SPARK
from tinyagi.settings.home import Home

_SETTINGS: Final = re.compile(r"settings-.*\.json")
_SHORTEST_NAME: Final = 3
"""Characters of a name to search for: a shorter one occurs in too many files."""
_CHUNK: Final = 1024 * 1024


def remove_copies(home: Home) -> list[Path]:
    """Delete logs and copies of the database, because any line or page of them may hold personal data.

    Copies of the settings stay; `mentions` searches them.
    """
    copies = [path for path in _entries(home.backups) if not _SETTINGS.fullmatch(path.name)]
    return [_remove(path) for path in (*_entries(home.logs), *copies)]


def remove_chats(home: Home, conversations: Collection[str]) -> list[Path]:
    """Delete the Markdown files of these conversations."""
    return [_remove(path) for path in sorted(home.chats.glob("*/*.md")) if belongs_to(path, conversations)]


def remove_attachments(home: Home, files: Collection[str]) -> tuple[list[Path], list[Path]]:
    """Delete attachments in the home's folder; return them, and the attachments elsewhere that stay."""
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


def file_mentions(home: Home, words: Collection[str]) -> list[Path]:
    """Files of the home that contain one of these words; compressed content is not searched."""
    wanted = [word.encode() for word in words if len(word) >= _SHORTEST_NAME]
    if not wanted:
        return []
    files = (path for path in sorted(home.path.rglob("*")) if path.is_file() and not path.is_symlink())
    # Spark's temporary files are deleted with its session.
    lasting = (path for path in files if not path.is_relative_to(home.lake / SPARK))
    return [path for path in lasting if _holds(path, wanted)]


def _entries(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.iterdir())) if folder.is_dir() else iter(())


def _remove(path: Path) -> Path:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return path


def _holds(path: Path, words: Collection[bytes]) -> bool:
    """Read in pieces: a database may be larger than memory."""
    overlap = max(map(len, words)) - 1
    before = b""
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            if any(word in before + piece for word in words):
                return True
            before = (before + piece)[-overlap:] if overlap else b""
    return False
