"""Text files of a workspace: safe reading and replacing, front matter, errors with remedies, packaged templates.

Agents and other programs write there, too, so no file is trusted.
"""

import codecs
import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from tinyagi.domain.errors import InvalidInput, TinyAGIError
from tinyagi.domain.texts import check_text, clean

TEXT_LIMIT: Final = 64 * 1024
HEAD_LIMIT: Final = 4 * 1024

NO_LINKS_HERE: Final = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})
"""Errors of file systems that have no links."""

LARGEST: Final = 1024 * 1024

KEYS: Final = frozenset({"name", "summary", "description", "version"})

_FENCE: Final = "---"
_BLOCKS: Final = frozenset({">", "|", ">-", "|-", ">+", "|+"})

_PLACEHOLDER: Final = re.compile(r"\{\{(\w+)\}\}")


class WorkspaceError(TinyAGIError):
    """An agent's folder cannot be used; no existing file has been changed."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{path} {problem}. {remedy}")
        self.path = path


class PromptFileError(TinyAGIError):
    """The agent's prompt_file cannot be read; an agent never runs without its owner's instructions."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"The prompt_file {path} {problem}. Correct prompt_file in the agent's settings, or remove it."
        )
        self.path = path


class OutsideWorkspace(WorkspaceError):
    """A link leads out of the agent's workspace."""


def read_bytes(path: Path, limit: int) -> bytes:
    """Return up to `limit` bytes of a regular file; raise OSError for a pipe or a device instead of waiting for it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        pieces = bytearray()
        while len(pieces) < limit and (piece := file.read(limit - len(pieces))):
            pieces += piece
        return bytes(pieces)


def read_text(path: Path) -> str | None:
    """Return the text, shortened with a note when it is too long, or None when the file is missing."""
    with as_workspace_error(path):
        try:
            data = read_bytes(path, TEXT_LIMIT + 1)
        except FileNotFoundError:
            return None
    if len(data) <= TEXT_LIMIT:
        return _decoded(data)
    note = f"[{path.name} is longer than {TEXT_LIMIT // 1024} KiB; the rest is left out.]"
    return f"{_decoded(data[:TEXT_LIMIT], cut=True)}\n\n{note}"


def read_head(path: Path) -> str:
    """Return the first 4 KiB of the text, or an empty text when the file cannot be read."""
    try:
        return _decoded(read_bytes(path, HEAD_LIMIT), cut=True)
    except OSError:
        return ""


def create_text(path: Path, text: str) -> bool:
    """Write the whole file; when the path exists already, leave it as it is and return False."""
    with as_workspace_error(path):
        if os.path.lexists(path):
            return False
        with _written_beside(path, text) as draft:
            try:
                # Unlike a rename, a link never replaces a file that another process has just created.
                os.link(draft, path)
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in NO_LINKS_HERE:
                    raise
                draft.replace(path)
    return True


def replace_text(path: Path, text: str) -> None:
    """Replace the file atomically; a link in its place is replaced, never followed."""
    with as_workspace_error(path), _written_beside(path, text) as draft:
        draft.replace(path)


def read_whole(workspace: Path, file: Path) -> str:
    """Return the whole text, empty when there is no such file; raise WorkspaceError when it cannot be read."""
    real = resolve_inside(workspace, file)
    with as_workspace_error(file):
        try:
            data = read_bytes(real, LARGEST + 1)
        except FileNotFoundError:
            return ""
    if len(data) > LARGEST:
        raise WorkspaceError(file, "is larger than 1 MiB", "Shorten it in the workspace")
    return clean(data.decode("utf-8-sig", "replace"))


def replace_whole(workspace: Path, file: Path, text: str) -> None:
    """Replace the text atomically; a link within the workspace stays a link. Raise InvalidInput or WorkspaceError."""
    check_text(text)
    if len(text.encode()) > TEXT_LIMIT:
        # An agent reads no more than this: the rest would be lost without an error.
        raise InvalidInput(f"{file.name} takes at most {TEXT_LIMIT // 1024} KiB. Put the rest into files it can read.")
    replace_text(resolve_inside(workspace, file), text)


def resolve_inside(workspace: Path, path: Path) -> Path:
    """Return the path with links resolved; raise OutsideWorkspace when it is not within the workspace."""
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(workspace)):
        raise OutsideWorkspace(path, "leads out of the agent's workspace", "Replace the link with a file or folder")
    return real


@contextmanager
def as_workspace_error(path: Path) -> Iterator[None]:
    """Turn an OSError into a WorkspaceError with its remedy."""
    try:
        yield
    except OSError as error:
        raise WorkspaceError(path, *_explanation(error)) from error


def _explanation(error: OSError) -> tuple[str, str]:
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return "is not accessible to this user", "Make it readable and writable, or choose another working_directory"
    if isinstance(error, NotADirectoryError | FileExistsError):
        return "should be a folder, or be inside one, but a file is in the way", "Move that file away"
    if isinstance(error, IsADirectoryError) or error.errno == errno.EINVAL:
        return "should be a regular file", "Move away whatever is in its place"
    if error.errno == errno.ELOOP:
        return "is a circular link", "Remove the link"
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "cannot be written: the disk is full", "Free some space; the next run tries again"
    return f"cannot be used: {error.strerror}", "Check the path and the disk"


@contextmanager
def _written_beside(path: Path, text: str) -> Iterator[Path]:
    """A complete temporary file next to the path, flushed to disk before it gets its final name."""
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
    """Decode any bytes; in a cut text an incomplete last character is dropped."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    return clean(decoder.decode(data, final=not cut))


def front_matter(text: str) -> Mapping[str, str]:
    """Return the values of known keys; empty when the text does not start with `---`."""
    first, *lines = text.split("\n")
    if first.rstrip() != _FENCE:
        return {}
    parts: dict[str, list[str]] = {}
    open_value: list[str] = []
    for line in lines:
        if line.rstrip() in {_FENCE, "..."}:
            break
        if line[:1].isspace():
            open_value.append(line.strip())
            continue
        key, colon, value = line.partition(":")
        open_value = [value.strip()]
        if colon and key.strip().lower() in KEYS:
            parts[key.strip().lower()] = open_value
    return {key: value for key, lines in parts.items() if (value := _joined(lines))}


def _joined(lines: list[str]) -> str:
    if lines[0] in _BLOCKS:
        lines = lines[1:]
    value = " ".join(filter(None, lines))
    quote = value[:1]
    if quote and quote in "'\"" and len(value) > 1 and value.endswith(quote):
        return value[1:-1].replace("''" if quote == "'" else '\\"', quote).strip()
    return value


@cache
def template(name: str) -> str:
    """The text of a template, by its path below `templates/`."""
    return files("tinyagi.agents").joinpath("templates", *name.split("/")).read_text(encoding="utf-8")


def template_folders(name: str) -> tuple[str, ...]:
    """Names of the folders in a folder below `templates/`, sorted."""
    folder = files("tinyagi.agents").joinpath("templates", *name.split("/"))
    return tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir()))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Fill the placeholders in one pass: a value that looks like a placeholder stays as it is."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)
