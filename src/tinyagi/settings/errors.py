"""Errors of a home and its settings."""

from collections.abc import Sequence
from pathlib import Path

from tinyagi.domain.errors import TinyAGIError


class SettingsError(TinyAGIError):
    """The settings cannot be read, written or used."""


class HomeUnusable(SettingsError):
    """The home's folder cannot be made or written."""


class SettingsBusy(SettingsError):
    """Another process held the lock beyond the timeout; nothing was written."""


class SettingsFailed(SettingsError):
    """The file system refused a read or a write."""


class InvalidSettings(SettingsError):
    """The settings have problems. All of them are listed, each a sentence that begins with a dotted name."""

    def __init__(self, problems: Sequence[str], *, file: Path | None = None, backup: Path | None = None) -> None:
        self.problems = tuple(problems)
        self.file = file
        self.backup = backup
        """The newest valid version, if there is one."""
        where = "The settings are not valid" if file is None else f"{file} is not valid"
        super().__init__(f"{where}: {'; '.join(self.problems)}.{_remedy(file, backup)}")


class UnreadableSettings(InvalidSettings):
    """The file is not JSON; it is left unchanged."""

    def __init__(self, reason: str, file: Path, *, line: int = 1, column: int = 1, backup: Path | None = None) -> None:
        super().__init__((f"line {line}, column {column}: {reason}",), file=file, backup=backup)
        self.line = line
        self.column = column


def _remedy(file: Path | None, backup: Path | None) -> str:
    if file is None:
        return ""
    if backup is None:
        return " Fix it there; nothing was changed."
    return f" Fix it there, or go back to the last good version: cp '{backup}' '{file}'"
