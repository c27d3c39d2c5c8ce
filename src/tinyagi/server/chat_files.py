"""Finds the files of team conversations below a home. Links are not followed: they may lead anywhere."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tinyagi.api.rooms import ChatFile
from tinyagi.domain.ids import is_valid_id


def chat_files(folder: Path, limit: int) -> list[ChatFile]:
    """The files that were written last, newest first. Blocks."""
    found = [file for team in _entries(folder) if team.is_dir(follow_symlinks=False) for file in _of_team(team)]
    return sorted(found, key=lambda file: (-file.time, file.team_id, file.file))[:limit]


def _of_team(team: os.DirEntry[str]) -> Iterator[ChatFile]:
    if not is_valid_id(team.name):
        return
    for entry in _entries(Path(team.path)):
        # A name that is no text cannot be sent, and none of ours is such.
        if not entry.name.endswith(".md") or not entry.name.isprintable():
            continue
        # It may be gone by now.
        with suppress(FileNotFoundError):
            if entry.is_file(follow_symlinks=False):
                written = entry.stat(follow_symlinks=False).st_mtime_ns
                yield ChatFile(team_id=team.name, file=entry.name, time=written // 1_000_000)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    # A folder that is not there or closed to us has nothing to list.
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []
