"""Backups: whether there is one, how old the newest is, and whether a restore was cut off."""

import time
from collections.abc import Iterator
from typing import Final

from tinyagi.backup.listing import newest_archive
from tinyagi.daemon.doctor.findings import Finding, Subject, hint, ok, warning
from tinyagi.daemon.pidfile import look

OLD_DAYS: Final = 30
_DAY: Final = 86_400


def backups(subject: Subject) -> Iterator[Finding]:
    home = subject.home
    if home.restore_journal.exists() and not look(home).is_up:
        yield warning("Restore", f"A restore of {home.path} was cut off.", "tinyagi start completes it.")
    if not home.database.exists():
        return
    newest = newest_archive(home)
    if newest is None:
        yield hint("Backup", "There is none in this home.", "Make one, also while it runs: tinyagi backup create")
        return
    days = int((time.time() - newest.stat().st_mtime) / _DAY)
    if days >= OLD_DAYS:
        yield hint("Backup", f"The newest, {newest.name}, is {days} days old.", "Make one: tinyagi backup create")
    else:
        yield ok("Backup", f"{newest.name}, {newest.stat().st_size / 1e6:.1f} MB")
