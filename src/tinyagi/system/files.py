"""Writes that survive a crash or a power loss: files replaced as a whole, or flushed to the disk."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def write_aside(path: Path, content: bytes) -> Path:
    """Write the content durably to a new file beside the path that only its owner can read; return that file's path.

    All writers use the same name and must hold a lock. The next write overwrites what a crash leaves behind.
    """
    aside = path.with_name(f".{path.name}.new")
    # Always create the file: an existing one may be open elsewhere, or be a link.
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return aside


def put_in_place(aside: Path, path: Path) -> None:
    """Move the file from `write_aside` to its path, durably."""
    aside.replace(path)
    sync(path.parent)


def append(path: Path, content: bytes) -> None:
    """Append to a file; a new one is readable by its owner only, and a link is refused."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
        file.write(content)


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """In this block, files that the process and its new children create are private to the owner. Not thread-safe."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make the folder and its missing parents, durably; the mode applies to the folder itself."""
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
