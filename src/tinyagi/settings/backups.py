"""The last versions of the settings, one file each; their names sort by time."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from tinyagi.system.files import put_in_place, write_aside

KEPT: Final = 5

_NAME: Final = re.compile(r"settings-(\d{8}T\d{6}\.\d{6})Z\.json")
_TIME: Final = "%Y%m%dT%H%M%S.%f"


def utc_now() -> datetime:
    return datetime.now(UTC)


class Backups:
    """Used under the lock of the settings file."""

    def __init__(self, folder: Path, now: Callable[[], datetime] = utc_now) -> None:
        self._folder = folder
        self._now = now

    def keep(self, content: bytes) -> None:
        """Keep this version, unless it is the newest one already, and let go of the oldest."""
        kept = self.newest_first()
        if kept and kept[0].read_bytes() == content:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"settings-{self._time_after(kept):{_TIME}}Z.json"
        # Aside under one name for all versions, see `write_aside`.
        put_in_place(write_aside(self._folder / "settings.json", content), path)
        for old in kept[KEPT - 1 :]:
            old.unlink(missing_ok=True)

    def newest_first(self) -> list[Path]:
        """Every version that is kept."""
        if not self._folder.is_dir():
            return []
        return sorted((path for path in self._folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)

    def newest_good(self, is_good: Callable[[bytes], bool]) -> Path | None:
        """The newest version that the judge takes."""
        return next((path for path in self.newest_first() if is_good(path.read_bytes())), None)

    def _time_after(self, kept: list[Path]) -> datetime:
        """Now, or just after the newest version, when somebody has set the clock back."""
        now = self._now()
        found = _NAME.fullmatch(kept[0].name) if kept else None
        if found is None:
            return now
        newest = datetime.strptime(found[1], _TIME).replace(tzinfo=UTC)
        return max(now, newest + timedelta(microseconds=1))
