"""The doctor's findings, and the context that each check gets."""

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
    """It works, but may not be what you want."""
    PROBLEM = "problem"
    """Something does not work, or other users have access."""


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    title: str
    found: str
    remedy: str = ""
    """What to do about it; empty only when there is nothing to do."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The installation under examination."""

    home: Home
    environment: Mapping[str, str]
    settings: Settings | None
    """None when they are invalid; the check "Settings" says why."""


Check = Callable[[CheckContext], Iterable[Finding]]
SettingsCheck = Callable[[CheckContext, Settings], Iterable[Finding]]


def ok(title: str, found: str) -> Finding:
    return Finding(Level.OK, title, found)


def hint(title: str, found: str, remedy: str) -> Finding:
    return Finding(Level.HINT, title, found, remedy)


def warning(title: str, found: str, remedy: str) -> Finding:
    return Finding(Level.WARNING, title, found, remedy)


def problem(title: str, found: str, remedy: str) -> Finding:
    return Finding(Level.PROBLEM, title, found, remedy)
