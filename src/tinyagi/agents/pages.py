"""Texts of a workspace as people edit them: read whole, replaced whole, and never outside, wherever links lead."""

import os
from pathlib import Path
from typing import Final

from tinyagi.agents.errors import WorkspaceError
from tinyagi.agents.texts import TEXT_LIMIT, explained, read_bytes, replace_text
from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.texts import check_text, clean

LARGEST: Final = 1024 * 1024


class LeadsOutside(WorkspaceError):
    """A link leads to where this agent's things are not."""


def inside(workspace: Path, path: Path) -> Path:
    """Return where the path really leads; raise LeadsOutside when that is not within the workspace."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(workspace)):
        raise LeadsOutside(path, "leads out of the agent's workspace", "Put a file or folder in the place of the link")
    return real


def read_page(workspace: Path, file: Path) -> str:
    """Return the whole text, nothing when there is no such file; raise WorkspaceError."""
    real = inside(workspace, file)
    with explained(file):
        try:
            data = read_bytes(real, LARGEST + 1)
        except FileNotFoundError:
            return ""
    if len(data) > LARGEST:
        raise WorkspaceError(file, "is larger than 1 MiB", "Shorten it in the workspace")
    return clean(data.decode("utf-8-sig", "replace"))


def write_page(workspace: Path, file: Path, text: str) -> None:
    """Replace the text in one step; a link within the workspace stays a link. Raise InvalidInput or WorkspaceError."""
    check_text(text)
    if len(text.encode()) > TEXT_LIMIT:
        # An agent is told no more than this: what is beyond would be lost without a word.
        raise InvalidInput(f"{file.name} takes at most {TEXT_LIMIT // 1024} KiB. Put the rest into files it can read.")
    replace_text(inside(workspace, file), text)
