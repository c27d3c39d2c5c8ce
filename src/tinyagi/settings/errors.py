"""What can be wrong with a home and its settings."""

from collections.abc import Sequence
from pathlib import Path

from tinyagi.domain.errors import TinyAGIError


class SettingsError(TinyAGIError):
    """The settings cannot be read, written or used."""


class HomeUnusable(SettingsError):
    """The home's folder cannot be made or written."""


class SettingsBusy(SettingsError):
    """Another process holds the lock for longer than the time-out; nothing was written."""


class SettingsFailed(SettingsError):
    """The file system refused."""


class InvalidSettings(SettingsError):
    """What is wrong, all of it: each problem is a sentence that begins with a dotted name."""

    def __init__(self, problems: Sequence[str], *, file: Path | None = None, backup: Path | None = None) -> None:
        self.problems = tuple(problems)
        self.file = file
        self.backup = backup
        """The newest version that is valid, if there is one."""
        where = "The settings are not valid" if file is None else f"{file} is not valid"
        super().__init__(f"{where}: {'; '.join(self.problems)}.{_remedy(file, backup)}")


class UnreadableSettings(InvalidSettings):
    """The file is not JSON; it is left as it is."""

    def __init__(self, reason: str, file: Path, *, line: int = 1, column: int = 1, backup: Path | None = None) -> None:
        super().__init__((f"line {line}, column {column}: {reason}",), file=file, backup=backup)
        self.line = line
        self.column = column


def _remedy(file: Path | None, backup: Path | None) -> str:
    if file is None:
        return ""
    if backup is None:
        return " Mend it there; nothing was changed."
    return f" Mend it there, or go back to the last good version: cp '{backup}' '{file}'"
