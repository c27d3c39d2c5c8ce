"""The home folder of one installation: where its files are, and how the folder is found and made private."""

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
        """Twelve hexadecimal digits that mark this home's processes; every path to the home gives the same."""
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
    def cache(self) -> Path:
        """Files that are made again when they are missing; no backup holds them."""
        return self.path / "cache"

    @property
    def restore_journal(self) -> Path:
        """Exists while `backup restore` works on the home, and after it was interrupted."""
        return self.path / "restore.json"

    @property
    def logout_file(self) -> Path:
        """The instant of the last logout, which ended all logins."""
        return self.path / "logout"

    @property
    def is_private(self) -> bool:
        """True when only the owner can read the folder."""
        return stat.S_IMODE(self.path.stat().st_mode) & 0o077 == 0

    def prepare(self) -> None:
        """Create the missing folders, private to the owner. Existing folders keep their permissions.

        The lake makes its own folder: its existence shows that the pipeline has run.
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
    """Create the folder and its missing parents, all private to the owner; mkdir's `parents=True` ignores the mode."""
    try:
        folder.mkdir(mode=PRIVATE, exist_ok=True)
    except FileNotFoundError:
        make_private(folder.parent)
        folder.mkdir(mode=PRIVATE, exist_ok=True)


def find_home(environment: Mapping[str, str] | None = None) -> Home:
    """The home named by the environment, by default this process's environment."""
    return Home(home_path(snapshot() if environment is None else environment))
