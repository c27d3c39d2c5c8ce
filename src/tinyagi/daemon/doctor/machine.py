"""The machine: Python, time zones, room on the disk."""

import platform
import shutil
import sys
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tinyagi.daemon.doctor.findings import Finding, Subject, ok, problem, warning

OLDEST_PYTHON: Final = (3, 11)
LITTLE_ROOM: Final = 1024**3
NO_ROOM: Final = 100 * 1024**2

_SOME_ZONE: Final = "Europe/Lisbon"


def python(_: Subject) -> Iterator[Finding]:
    found = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        yield problem("Python", found, f"Install Python {wanted} or newer, and TinyAGI with it.")
    else:
        yield ok("Python", found)


def time_zones(subject: Subject) -> Iterator[Finding]:
    own = subject.environment.get("TZ", "").lstrip(":")
    try:
        zoneinfo.ZoneInfo(_SOME_ZONE)
    except zoneinfo.ZoneInfoNotFoundError:
        yield problem(
            "Time zones",
            "This Python knows no time zones, so schedules with one cannot run.",
            "Install them: pip install tzdata",
        )
        return
    if own and "/" in own and not own.startswith("/") and own not in zoneinfo.available_timezones():
        yield warning(
            "Time zones", f"TZ is {own!r}, which is none that is known.", "Set TZ to a name such as Asia/Tokyo."
        )
    else:
        yield ok("Time zones", own or "known; this machine's own is used")


def disk(subject: Subject) -> Iterator[Finding]:
    folder = _existing(subject.home.path)
    free = shutil.disk_usage(folder).free
    found = f"{free / 1024**3:.1f} GiB free at {folder}"
    remedy = "Free some space: without room nothing is written, and messages are refused."
    if free < NO_ROOM:
        yield problem("Disk", found, remedy)
    elif free < LITTLE_ROOM:
        yield warning("Disk", found, remedy)
    else:
        yield ok("Disk", found)


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())
