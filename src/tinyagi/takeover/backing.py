"""The backup before a takeover: everything that is read or changed, as it was."""

import shutil
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from tinyagi.domain.errors import StoreFailed
from tinyagi.settings.home import PRIVATE
from tinyagi.takeover.databases import opened
from tinyagi.takeover.original import OldHome
from tinyagi.takeover.plan import Plan


def back_up(plan: Plan, now: int) -> Path:
    """Return the folder, which is there under its name only when it is whole."""
    folder = _free(plan.home.backups, now)
    aside = plan.home.backups / ".migration.new"
    try:
        if aside.exists():
            # What a crash has left of an earlier one.
            shutil.rmtree(aside)
        aside.mkdir(mode=PRIVATE)
        _keep(OldHome(plan.source), aside / "old")
        if not plan.in_place:
            _keep(OldHome(plan.home.path), aside / "home")
        return aside.rename(folder)
    except OSError as error:
        raise StoreFailed(f"There is no backup: {error}. Nothing was changed; make room and try again.") from error


def _free(backups: Path, now: int) -> Path:
    """A name that sorts by time and is not taken."""
    names = (f"migration-{datetime.fromtimestamp(at / 1000, UTC):%Y%m%dT%H%M%S.%f}Z" for at in count(now))
    return next(path for path in (backups / name for name in names) if not path.exists())


def _keep(home: OldHome, folder: Path) -> None:
    folder.mkdir(mode=PRIVATE)
    for path in home.files:
        copy = folder / path.name
        copy.touch(mode=0o600)
        shutil.copyfile(path, copy)
    for path in home.databases:
        with opened(path) as database:
            database.copy_to(folder / path.name)
