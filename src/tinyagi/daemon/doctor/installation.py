"""Checks of the machine and the home: Python, disk, permissions, settings, database and backups."""

import os
import platform
import shutil
import stat
import sys
import time
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tinyagi.backup.listing import newest_archive
from tinyagi.daemon.doctor.findings import CheckContext, Finding, hint, ok, problem, warning
from tinyagi.daemon.pidfile import find_daemon
from tinyagi.domain.errors import StoreError
from tinyagi.domain.texts import counted, size_text
from tinyagi.settings.errors import SettingsError
from tinyagi.settings.parse import unknown_settings
from tinyagi.settings.settings_file import SettingsFile
from tinyagi.store.health import StoreHealth
from tinyagi.wiring import examine_store

OLDEST_PYTHON: Final = (3, 11)
LOW_SPACE: Final = 1024**3
NO_SPACE: Final = 100 * 1024**2
OLD_BACKUP_DAYS: Final = 30

_SAMPLE_ZONE: Final = "Europe/Lisbon"
_DAY_SECONDS: Final = 86_400


def python(_: CheckContext) -> Iterator[Finding]:
    found = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        yield problem("Python", found, f"Install Python {wanted} or newer, and TinyAGI with it.")
    else:
        yield ok("Python", found)


def time_zones(context: CheckContext) -> Iterator[Finding]:
    zone = context.environment.get("TZ", "").lstrip(":")
    try:
        zoneinfo.ZoneInfo(_SAMPLE_ZONE)
    except zoneinfo.ZoneInfoNotFoundError:
        yield problem(
            "Time zones",
            "This Python has no time zone data, so schedules with a time zone cannot run.",
            "Install it: pip install tzdata",
        )
        return
    if zone and "/" in zone and not zone.startswith("/") and zone not in zoneinfo.available_timezones():
        yield warning(
            "Time zones", f"TZ is {zone!r}, which is not a known time zone.", "Set TZ to a name such as Asia/Tokyo."
        )
    else:
        yield ok("Time zones", zone or "known; the machine's time zone is used")


def disk(context: CheckContext) -> Iterator[Finding]:
    folder = _existing_parent(context.home.path)
    free = shutil.disk_usage(folder).free
    found = f"{size_text(free)} free at {folder}"
    remedy = "Free some space: on a full disk nothing can be written, and messages are refused."
    if free < NO_SPACE:
        yield problem("Disk", found, remedy)
    elif free < LOW_SPACE:
        yield warning("Disk", found, remedy)
    else:
        yield ok("Disk", found)


def home(context: CheckContext) -> Iterator[Finding]:
    path = context.home.path
    if not path.exists():
        yield hint(
            "Home", f"{path} does not exist yet.", "tinyagi start creates it, or set TINYAGI_HOME to another folder."
        )
    elif not path.is_dir():
        yield problem("Home", f"{path} is not a folder.", "Move it away, or set TINYAGI_HOME to a folder.")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield problem("Home", f"{path} cannot be written.", f"Take ownership: sudo chown -R $USER '{path}'")
    elif not context.home.is_private:
        yield warning("Home", f"Other users of this machine can read {path}.", f"chmod 700 '{path}'")
    else:
        yield ok("Home", f"{path}, private")


def settings(context: CheckContext) -> Iterator[Finding]:
    try:
        loaded = SettingsFile(context.home).read()
    except SettingsError as error:
        yield problem("Settings", str(error), f"Fix {context.home.settings_file}; until then the daemon cannot start.")
        return
    if loaded is None:
        yield hint(
            "Settings", "There are none yet.", "tinyagi start creates them, with the providers that this machine has."
        )
    else:
        agents, teams = counted(len(loaded.settings.agents), "agent"), counted(len(loaded.settings.teams), "team")
        yield ok("Settings", f"{context.home.settings_file}, valid; {agents}, {teams}")
        for sentence in unknown_settings(loaded.raw):
            yield warning("Settings", sentence, f"Rename or remove it in {context.home.settings_file}.")


def file_modes(context: CheckContext) -> Iterator[Finding]:
    """Files that may hold secrets or messages."""
    home = context.home
    databases = (home.database.with_name(f"{home.database.name}{end}") for end in ("", "-wal", "-shm"))
    files = [home.settings_file, home.pid_file, *databases, home.path / "service.env"]
    files += [path for folder in (home.logs, home.backups) if folder.is_dir() for path in sorted(folder.iterdir())]
    existing = [path for path in files if path.is_file()]
    readable = [path for path in existing if _others_have_access(path)]
    if readable:
        paths = " ".join(f"'{path}'" for path in readable)
        names = ", ".join(path.name for path in readable)
        yield warning("File modes", f"Other users of this machine can read {names}.", f"chmod 600 {paths}")
    elif existing:
        yield ok("File modes", f"{counted(len(existing), 'file')}, private")


def old_home(context: CheckContext) -> Iterator[Finding]:
    from tinyagi.legacy.old_home import find_source  # noqa: PLC0415 - it imports the database, which most commands do not need

    try:
        found = find_source(context.home, None, context.environment)
    except SettingsError:
        # The check "Settings" reports invalid settings; they do not show which program wrote them.
        return
    if found is not None:
        yield hint(
            "Earlier version",
            f"{found.path} looks like a home of the original program.",
            f"Take it over with: tinyagi migrate --from '{found.path}'",
        )


def database(context: CheckContext) -> Iterator[Finding]:
    path = context.home.database
    if not path.exists():
        yield hint("Database", f"{path} does not exist yet.", "tinyagi start creates it.")
        return
    try:
        found = examine_store(context.home)
    except StoreError as error:
        yield problem("Database", str(error), "List the backups: tinyagi backup list")
        return
    yield _health(context, found)
    yield from _lanes(found)


def backups(context: CheckContext) -> Iterator[Finding]:
    home = context.home
    if home.restore_journal.exists() and not find_daemon(home).is_up:
        yield warning("Restore", f"A restore of {home.path} was interrupted.", "tinyagi start completes it.")
    if not home.database.exists():
        return
    newest = newest_archive(home)
    if newest is None:
        yield hint(
            "Backup", "There is none in this home.", "Create one, even while the daemon runs: tinyagi backup create"
        )
        return
    days = int((time.time() - newest.stat().st_mtime) / _DAY_SECONDS)
    if days >= OLD_BACKUP_DAYS:
        yield hint("Backup", f"The newest, {newest.name}, is {days} days old.", "Create one: tinyagi backup create")
    else:
        yield ok("Backup", f"{newest.name}, {size_text(newest.stat().st_size)}")


def _health(context: CheckContext, found: StoreHealth) -> Finding:
    path = context.home.database
    size = size_text(found.size)
    if found.verdict != "ok":
        return problem(
            "Database",
            f"{path} is damaged: {found.verdict}",
            "Stop the daemon and restore a backup: tinyagi backup list, then tinyagi backup restore NAME",
        )
    if found.version > found.newest:
        return problem(
            "Database",
            f"{path} was written by a newer TinyAGI (schema {found.version}, this version knows {found.newest}).",
            "Install that version, or use another home.",
        )
    if found.version < found.newest:
        return hint(
            "Database",
            f"{path} ({size}) has an earlier version (schema {found.version} of {found.newest}).",
            "The next start migrates it, after a backup.",
        )
    return ok("Database", f"{path}, intact, {size}, schema {found.version}")


def _lanes(found: StoreHealth) -> Iterator[Finding]:
    dead = [lane for lane in found.lanes if lane.dead]
    if dead:
        lanes = ", ".join(f"@{lane.agent} {lane.dead}" for lane in dead)
        yield hint("Dead messages", lanes, "See why with `tinyagi queue dead`; try again with `tinyagi queue retry`.")
    for lane in found.lanes:
        waits = f", {lane.pending} messages wait" if lane.pending else ""
        if lane.paused:
            yield hint("Lane", f"@{lane.agent} is paused{waits}.", f"Resume it: tinyagi queue resume {lane.agent}")
        elif lane.hold_until > time.time_ns() // 1_000_000:
            yield warning(
                "Lane",
                f"@{lane.agent} is held{waits}: {lane.hold_reason or 'its provider failed'}",
                f"It resumes automatically. To resume it now, fix the cause, then: tinyagi queue resume {lane.agent}",
            )


def _existing_parent(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _others_have_access(path: Path) -> bool:
    return stat.S_IMODE(path.stat().st_mode) & 0o077 != 0
