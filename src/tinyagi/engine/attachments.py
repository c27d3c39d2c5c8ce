"""Which files may be sent: `[send_file: path]` tags, attachments of messages, long answers as files.

A sent file is a copy of the checked one: an agent may replace the original with a link at any moment.
"""

import os
import re
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Final

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.responses import PREVIEW_END
from tinyagi.domain.tags import mask_code
from tinyagi.system.files import copy_descriptor, make_folder, open_below, put_in_place, sync, write_aside

_OPENING: Final = "[send_file:"
_TAG: Final = re.compile(re.escape(_OPENING) + r"[^\[\]\n]+\]")
MAX_FILES: Final = 20
PREVIEW: Final = 1_000
SENT: Final = "sent"
RECEIVED: Final = "received"
LONGEST_STEM: Final = 150
"""Bytes; file systems allow 255 for a whole name."""
LONGEST_EXTENSION: Final = 16
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Attached:
    """The text without its tags, the files that may be sent, and a line about each refused one."""

    text: str
    files: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def safe_name(name: str) -> str:
    """A name for a file that a person sent, which may be any text: its last part, printable and not too long."""
    last = _UNPRINTABLE.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip().lstrip(".")
    stem, dot, extension = last.rpartition(".")
    if not stem or len(extension) > LONGEST_EXTENSION:
        stem, dot, extension = last, "", ""
    short = stem.encode("utf-8", "replace")[:LONGEST_STEM].decode("utf-8", "ignore")
    return f"{short}{dot}{extension}" or "file"


def names_files(text: str) -> bool:
    return _OPENING in text


def attach(text: str, folders: Sequence[Path], files_folder: Path, largest: int) -> Attached:
    """Remove the tags from the text and copy their files; relative paths start in the first folder.

    Takes the first `MAX_FILES` names only. Blocks.
    """
    # Tags in code blocks are plain text, as for all tags.
    tags = [tag.span() for tag in _TAG.finditer(mask_code(text))]
    named = dict.fromkeys(text[start + len(_OPENING) : end - 1].strip() for start, end in tags)
    found = [take_file(name, folders, files_folder, largest) for name in islice(named, MAX_FILES)]
    refused = [f"({reason})" for reason in found if isinstance(reason, str)]
    if len(named) > MAX_FILES:
        refused.append(f"({len(named) - MAX_FILES:,} more files are not attached: a message takes at most {MAX_FILES})")
    files = dict.fromkeys(str(path) for path in found if isinstance(path, Path))
    return Attached(_without(text, tags), tuple(files), tuple(refused))


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    return "".join(text[end:start] for end, start in zip(ends, starts, strict=True)).strip()


def checked_file(name: str, folders: Sequence[Path], files: Path, largest: int, kind: str = SENT) -> str:
    """Like `take_file`, but raise InvalidInput when the file may not be sent."""
    found = take_file(name, folders, files, largest, kind)
    if isinstance(found, str):
        raise InvalidInput(f"The file is {found}.")
    return str(found)


def take_file(name: str, folders: Sequence[Path], files: Path, largest: int, kind: str = SENT) -> Path | str:
    """The path of a file that may be sent, or the reason why not. The file must be in `files` or one of the folders.

    Links are resolved first and their target is checked; after that no link is followed. A file in `files` belongs to
    the home and is sent as it is; any other is copied into a new folder below `files/<kind>`, so it keeps its name.
    """
    try:
        path = ((folders[0] if folders else files) / Path(name).expanduser()).resolve()
        roots = [folder.resolve() for folder in (files, *folders)]
        root = next((root for root in roots if path.is_relative_to(root)), None)
        if root is None:
            return f"not attached, it is outside the workspace: {name}"
        source = open_below(root, path.relative_to(root))
    except (OSError, RuntimeError, ValueError):
        return f"not attached, there is no such file: {name}"
    with os.fdopen(source, "rb") as opened:
        reason = _reason_against(os.fstat(opened.fileno()), largest)
        if not reason and root == roots[0]:
            return path
        try:
            copy = None if reason else _copied(opened.fileno(), path.name, files / kind, largest)
        except OSError as error:
            copy, reason = None, f"it cannot be copied ({error.strerror})"
    return copy or f"not attached, {reason or _too_large(largest)}: {name}"


def _reason_against(found: os.stat_result, largest: int) -> str:
    if found.st_nlink > 1:
        return "the file has another name elsewhere (a hard link), send a copy of it"
    return _too_large(largest) if found.st_size > largest else ""


def _too_large(largest: int) -> str:
    return f"it is larger than {largest / 1_000_000:g} MB (responses.max_file_megabytes)"


def _copied(source: int, name: str, folder: Path, largest: int) -> Path | None:
    """The copy, durable and under the same name in a new folder; None when it is too large."""
    new_folder = folder / token_hex(8)
    make_folder(folder, 0o700)
    new_folder.mkdir(0o700)
    copy = new_folder / _UNPRINTABLE.sub("_", name)
    if not copy_descriptor(source, copy, largest):
        new_folder.rmdir()
        return None
    sync(new_folder)
    sync(folder)
    return copy


def discard_copies(paths: Collection[str], files: Path) -> None:
    """Delete copies that `take_file` made for a message that was not stored. Blocks."""
    for path in map(Path, paths):
        if path.parent.parent == files / RECEIVED:
            shutil.rmtree(path.parent, ignore_errors=True)


def sweep(files: Path, in_use: Collection[str], before: float) -> int:
    """Delete unused copies and long answers that are older than an instant in seconds.

    Other files of the folder stay: people put them there. Names are compared, not paths: a home may have moved, or have
    two paths.
    """
    used = {part for path in in_use for part in Path(path).parts[-2:]}
    made = (*(files / SENT).glob("*"), *(files / RECEIVED).glob("*"))
    unused = [path for path in made if path.name not in used and _is_older(path, before)]
    for path in unused:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return len(unused)


def _is_older(path: Path, before: float) -> bool:
    try:
        return path.lstat().st_mtime < before
    except FileNotFoundError:
        return False


def write_long_answer(text: str, folder: Path, name: str) -> Path:
    """Store a long answer durably as a file and return its path; a repeat writes the same file again."""
    make_folder(folder / SENT, 0o700)
    path = folder / SENT / f"response_{name}.md"
    put_in_place(write_aside(path, text.encode()), path)
    return path


def preview(text: str) -> str:
    """The start of a long answer, cut between words."""
    cut = text[:PREVIEW].rsplit(None, 1)[0] if " " in text[:PREVIEW] else text[:PREVIEW]
    return f"{cut.rstrip()} …\n\n{PREVIEW_END}"
