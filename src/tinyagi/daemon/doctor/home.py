"""The home: that it is there, that nobody else looks into it, and that its settings can be used."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tinyagi.daemon.doctor.findings import Finding, Subject, hint, ok, problem, warning
from tinyagi.settings.document import Document
from tinyagi.settings.errors import SettingsError


def home(subject: Subject) -> Iterator[Finding]:
    path = subject.home.path
    if not path.exists():
        yield hint(
            "Home", f"{path} is not there yet.", "tinyagi start makes it, or set TINYAGI_HOME to another folder."
        )
    elif not path.is_dir():
        yield problem("Home", f"{path} is no folder.", "Move it away, or set TINYAGI_HOME to a folder.")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield problem("Home", f"{path} cannot be written.", f"Make it yours: sudo chown -R $USER '{path}'")
    elif not subject.home.is_private:
        yield warning("Home", f"Others on this machine can look into {path}.", f"chmod 700 '{path}'")
    else:
        yield ok("Home", f"{path}, for its owner only")


def settings(subject: Subject) -> Iterator[Finding]:
    try:
        loaded = Document(subject.home).read()
    except SettingsError as error:
        yield problem("Settings", str(error), f"Mend {subject.home.settings_file}; nothing starts before.")
        return
    if loaded is None:
        yield hint("Settings", "There are none yet.", "tinyagi start writes them for what this machine offers.")
    else:
        count = len(loaded.settings.agents)
        yield ok("Settings", f"{subject.home.settings_file}, valid; {count} agents, {len(loaded.settings.teams)} teams")


def private_files(subject: Subject) -> Iterator[Finding]:
    """Files that may hold secrets, or what was said."""
    home = subject.home
    databases = (home.database.with_name(f"{home.database.name}{end}") for end in ("", "-wal", "-shm"))
    files = [home.settings_file, home.pid_file, *databases, home.path / "service.env"]
    files += [path for folder in (home.logs, home.backups) if folder.is_dir() for path in sorted(folder.iterdir())]
    there = [path for path in files if path.is_file()]
    opened = [path for path in there if _is_open(path)]
    if opened:
        names = " ".join(f"'{path}'" for path in opened)
        shown = ", ".join(path.name for path in opened)
        yield warning("File modes", f"Others on this machine may read {shown}.", f"chmod 600 {names}")
    elif there:
        yield ok("File modes", f"{len(there)} files, for their owner only")


def old_home(subject: Subject) -> Iterator[Finding]:
    from tinyagi.takeover.original import find_source  # noqa: PLC0415 - it opens databases, which most calls need not

    try:
        found = find_source(subject.home, None, subject.environment)
    except SettingsError:
        # Settings that cannot be read are told of already, and tell nothing about who wrote them.
        return
    if found is not None:
        yield hint(
            "Earlier version",
            f"{found.path} looks like a home of the original program.",
            f"Take it over with: tinyagi migrate --from '{found.path}'",
        )


def _is_open(path: Path) -> bool:
    return stat.S_IMODE(path.stat().st_mode) & 0o077 != 0
