"""Files: writes that survive a crash, and safe copies of files that another program may change at any moment."""

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

UNFINISHED: Final = ("-wal", "-journal")
"""Suffixes of the files that hold part of the database when its last user did not close it."""
_ATTEMPTS: Final = 5

_CHUNK: Final = 8 * 1024 * 1024
# Errors that mean the kernel cannot copy between these two files itself.
_NO_COPY_RANGE: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})


def write_aside(path: Path, content: bytes) -> Path:
    """Write the content durably to a new file beside the path that only its owner can read; return that file's path.

    All writers use the same name and must hold a lock. The next write replaces a file that a crash left behind.
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


def is_unfinished(path: Path) -> bool:
    """True when a file beside the database holds part of it."""
    return any(_size(_beside(path, ending)) for ending in UNFINISHED)


def copy_files(path: Path, folder: Path) -> Path | None:
    """Copy the database and its log files into the folder, all from one moment; None while it is being written.

    The copies keep their names, because SQLite finds a log by the name of its database.
    """
    names = [path, *(_beside(path, ending) for ending in UNFINISHED)]
    for _ in range(_ATTEMPTS):
        before = [_stamp(name) for name in names]
        for name in names:
            copy = folder / name.name
            copy.unlink(missing_ok=True)
            # SQLite deletes the files beside a database when its last user closes it.
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(name, copy)
        if before == [_stamp(name) for name in names]:
            return folder / path.name
    return None


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def open_below(folder: Path, place: Path) -> int:
    """Open a regular file below the folder for reading and return its descriptor.

    Raise OSError when a part of the path is a link or missing, or the file is not a regular file. Each part is opened
    relative to the one before, so a link that replaces a part during the walk is refused too.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in place.parts[:-1]:
            below = os.open(part, flags | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        descriptor = os.open(place.name, flags | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(place))
    return descriptor


def copy_descriptor(source: int, target: Path, largest: int) -> bool:
    """Copy an open file into a new one that only its owner can read; False, and no new file, when it is too large."""
    written = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        # One byte beyond the limit shows that the file has grown since its size was checked.
        fits = _copy(source, written, largest + 1) <= largest
        os.fsync(written)
    except BaseException:
        target.unlink()
        raise
    finally:
        os.close(written)
    if not fits:
        target.unlink()
    return fits


def _copy(source: int, target: int, most: int) -> int:
    done = 0
    while done < most and (count := _copy_chunk(source, target, min(_CHUNK, most - done))):
        done += count
    return done


def _copy_chunk(source: int, target: int, size: int) -> int:
    if hasattr(os, "copy_file_range"):
        try:
            # Shares the blocks on file systems that support it.
            return os.copy_file_range(source, target, size)
        except OSError as error:
            if error.errno not in _NO_COPY_RANGE:
                raise
    content = os.read(source, size)
    view = memoryview(content)
    while view:
        view = view[os.write(target, view) :]
    return len(content)
