"""Where things are: the folder that holds everything of one installation."""

import hashlib
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.settings.environment import home_path, snapshot
from tinyagi.settings.errors import HomeUnusable

PRIVATE: Final = 0o700


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that holds everything of one installation."""

    path: Path

    @property
    def home_id(self) -> str:
        """Tells this home's processes from those of another: twelve hexadecimal digits, the same for every alias."""
        return hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:12]

    @property
    def database(self) -> Path:
        return self.path / "tinyagi.db"

    @property
    def settings_file(self) -> Path:
        return self.path / "settings.json"

    @property
    def pid_file(self) -> Path:
        return self.path / "tinyagi.pid"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def files(self) -> Path:
        """Attachments, and answers too long for a chat."""
        return self.path / "files"

    @property
    def channels(self) -> Path:
        return self.path / "channels"

    @property
    def chats(self) -> Path:
        return self.path / "chats"

    @property
    def plugins(self) -> Path:
        return self.path / "plugins"

    @property
    def backups(self) -> Path:
        return self.path / "backups"

    @property
    def lake(self) -> Path:
        return self.path / "lake"

    @property
    def restore_journal(self) -> Path:
        """There while `backup restore` works on the home, and after it was cut off."""
        return self.path / "restore.json"

    @property
    def is_private(self) -> bool:
        """True when nobody but its owner can look into the folder."""
        return stat.S_IMODE(self.path.stat().st_mode) & 0o077 == 0

    def prepare(self) -> None:
        """Create what is missing, open to its owner only. A folder that is there already keeps its permissions.

        The lake makes its own folder: whether it is there says whether a pipeline has run.
        """
        try:
            self.path.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
            for folder in (self.logs, self.files, self.channels, self.chats, self.plugins, self.backups):
                folder.mkdir(mode=PRIVATE, exist_ok=True)
        except OSError as error:
            raise HomeUnusable(
                f"The home {self.path} cannot be used: {error}. Make it writable or set TINYAGI_HOME to another folder."
            ) from error


def make_private(folder: Path) -> None:
    """Create the folder and what is missing above it, open to its owner only; `parents=True` opens those to others."""
    try:
        folder.mkdir(mode=PRIVATE, exist_ok=True)
    except FileNotFoundError:
        make_private(folder.parent)
        folder.mkdir(mode=PRIVATE, exist_ok=True)


def find_home(environment: Mapping[str, str] | None = None) -> Home:
    """The home that the environment names, by default that of this process."""
    return Home(home_path(snapshot() if environment is None else environment))
