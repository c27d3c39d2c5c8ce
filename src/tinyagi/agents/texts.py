"""Reads and writes the texts of a workspace. Agents and other programs write there too: nothing is taken on trust."""

import codecs
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tinyagi.agents.errors import WorkspaceError
from tinyagi.domain.texts import clean

TEXT_LIMIT: Final = 64 * 1024
HEAD_LIMIT: Final = 4 * 1024

NO_LINKS_HERE: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
"""What file systems without links answer."""


def read_bytes(path: Path, limit: int) -> bytes:
    """Return up to `limit` bytes of a regular file; a pipe or a device is refused, never waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        pieces = bytearray()
        while len(pieces) < limit and (piece := file.read(limit - len(pieces))):
            pieces += piece
        return bytes(pieces)


def read_text(path: Path) -> str | None:
    """Return the text, shortened with a note when it is too long, or None when there is none."""
    with explained(path):
        try:
            data = read_bytes(path, TEXT_LIMIT + 1)
        except FileNotFoundError:
            return None
    if len(data) <= TEXT_LIMIT:
        return _decoded(data)
    note = f"[{path.name} is longer than {TEXT_LIMIT // 1024} KiB; the rest is left out.]"
    return f"{_decoded(data[:TEXT_LIMIT], cut=True)}\n\n{note}"


def read_head(path: Path) -> str:
    """Return the first 4 KiB of the text, or nothing when they cannot be read."""
    try:
        return _decoded(read_bytes(path, HEAD_LIMIT), cut=True)
    except OSError:
        return ""


def create_text(path: Path, text: str) -> bool:
    """Write the file whole, unless anything is there already: then leave that as it is and return False."""
    with explained(path):
        if os.path.lexists(path):
            return False
        with _written_beside(path, text) as draft:
            try:
                # A link refuses to replace what somebody else made in the meantime, where a rename would not.
                os.link(draft, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in NO_LINKS_HERE:
                    raise
                draft.replace(path)
    return True


def replace_text(path: Path, text: str) -> None:
    """Put the text in the file's place in one step; a link there is replaced, never written through."""
    with explained(path), _written_beside(path, text) as draft:
        draft.replace(path)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Tell what the system refused as a WorkspaceError with its remedy."""
    try:
        yield
    except OSError as error:
        raise WorkspaceError(path, *_explanation(error)) from error


def _explanation(error: OSError) -> tuple[str, str]:
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return "is closed to this user", "Make it readable and writable, or choose another working_directory"
    if isinstance(error, NotADirectoryError | FileExistsError):
        return "should be a folder, or lie in one, but a file is in the way", "Move that file away"
    if isinstance(error, IsADirectoryError) or error.errno == errno.EINVAL:
        return "should be a regular file", "Move away what stands there"
    if error.errno == errno.ELOOP:
        return "is a link that leads in circles", "Remove the link"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "finds no room on the disk", "Free some space; the next run tries again"
    return f"cannot be used: {error.strerror}", "Check the path and the disk"


@contextmanager
def _written_beside(path: Path, text: str) -> Iterator[Path]:
    """A complete file next to the path, on the disk before it gets its name."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, _mode_of(path))
            file.write(clean(text).encode())
            file.flush()
            os.fsync(descriptor)
        yield draft
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def _mode_of(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0o644


def _decoded(data: bytes, *, cut: bool = False) -> str:
    """Decode whatever it is; of a cut text the last character may be half there and is left out."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    return clean(decoder.decode(data, final=not cut))
