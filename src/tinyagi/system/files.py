"""Files that survive a crash and a loss of power: replaced as a whole, or flushed to the disk."""

import os
from pathlib import Path


def write_aside(path: Path, content: bytes) -> Path:
    """Write the content durably to a new file beside the path, readable for its owner only, and return its path.

    One name for all writers, which hold a lock: what a crash leaves behind is overwritten and never piles up.
    """
    aside = path.with_name(f".{path.name}.new")
    # A fresh file: one that is there already may be open elsewhere, or be a link to somewhere else.
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return aside


def put_in_place(aside: Path, path: Path) -> None:
    """Let the file that was written aside take its place, durably."""
    aside.replace(path)
    sync(path.parent)


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make the folder and those above it that are missing, durably; the mode is that of the last one."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(mode, parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync(folder.parent)


def sync(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
