"""Files of the old home that are taken over as they are: copied, never moved, never over a file that is there."""

import filecmp
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from tinyagi.domain.errors import StoreFailed
from tinyagi.settings.home import PRIVATE, Home
from tinyagi.takeover.original import TREES, OldHome
from tinyagi.takeover.parts import Part, Skipped
from tinyagi.takeover.plan import FileCopy


def plan_files(old: OldHome, home: Home) -> tuple[tuple[FileCopy, ...], Part]:
    copies: list[FileCopy] = []
    left: list[Skipped] = []
    there = 0
    for tree in TREES:
        for path in _walk(old.path / tree):
            place = path.relative_to(old.path)
            reason = _reason_against(path, old.path)
            if reason:
                left.append(Skipped(str(place), reason))
            elif not os.path.lexists(home.path / place):
                copies.append(FileCopy(path, place, path.stat().st_size))
            elif filecmp.cmp(path, home.path / place, shallow=False):
                there += 1
            else:
                left.append(Skipped(str(place), "another file of this name is there"))
    return tuple(copies), Part("files", len(copies), there, tuple(left))


def copy_file(copy: FileCopy, home: Home) -> None:
    """Put the file in its place whole, or not at all; one that is there meanwhile is left as it is."""
    target = home.path / copy.place
    if os.path.lexists(target):
        return
    aside = target.with_name(".takeover.new")
    try:
        for folder in reversed([parent for parent in target.parents if home.path in parent.parents]):
            folder.mkdir(mode=PRIVATE, exist_ok=True)
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as written, copy.source.open("rb") as read:
            shutil.copyfileobj(read, written)
        shutil.copystat(copy.source, aside)
        aside.chmod(0o600)
        aside.rename(target)
    except OSError as error:
        raise StoreFailed(f"{copy.source} could not be copied: {error}. Make room and run this again.") from error


def _walk(folder: Path) -> Iterator[Path]:
    """Everything below that is no folder, in order; links are not walked into."""
    if not folder.is_dir() or folder.is_symlink():
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        else:
            yield path


def _reason_against(path: Path, source: Path) -> str:
    if path.is_symlink():
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):
            return "it is a link that leads nowhere"
        if not target.is_relative_to(source.resolve()):
            return "it is a link that leads out of the old home"
        if not target.is_file():
            return "it is a link to a folder"
    return "" if stat.S_ISREG(path.stat().st_mode) else "it is no file that can be copied"
