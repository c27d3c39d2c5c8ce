"""Replaces a file so that whoever looks, and whatever crashes, finds the old content or the new one."""

import os
from pathlib import Path


def write_aside(path: Path, content: bytes) -> Path:
    """Write the content durably beside the file, readable for its owner only, and return where it stands.

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
    """Let the file that stands aside take its place, durably."""
    aside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
