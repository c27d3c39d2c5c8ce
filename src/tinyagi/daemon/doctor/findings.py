"""What the doctor finds, and whom it examines."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings


class Level(StrEnum):
    OK = "ok"
    HINT = "hint"
    """Worth knowing; nothing is wrong."""
    WARNING = "warning"
    """It works, and may not be what you want."""
    PROBLEM = "problem"
    """Something does not work, or is open to others."""


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    title: str
    found: str
    remedy: str = ""
    """What to do about it; empty only when there is nothing to do."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One installation."""

    home: Home
    environment: Mapping[str, str]
    settings: Settings | None
    """None when they cannot be used: a check of its own says why."""


Check = Callable[[Subject], Iterable[Finding]]
SettingsCheck = Callable[[Subject, Settings], Iterable[Finding]]


def ok(title: str, found: str) -> Finding:
    return Finding(Level.OK, title, found)


def hint(title: str, found: str, remedy: str) -> Finding:
    return Finding(Level.HINT, title, found, remedy)


def warning(title: str, found: str, remedy: str) -> Finding:
    return Finding(Level.WARNING, title, found, remedy)


def problem(title: str, found: str, remedy: str) -> Finding:
    return Finding(Level.PROBLEM, title, found, remedy)
