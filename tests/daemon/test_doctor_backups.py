"""The doctor's findings about backups and interrupted restores."""

import asyncio
import os
import time

import pytest

from tests.backup.conftest import create_backup
from tests.daemon.conftest import WriteSettings
from tinyagi.daemon.doctor.findings import CheckContext, Finding, Level
from tinyagi.daemon.doctor.installation import OLD_BACKUP_DAYS, backups
from tinyagi.domain.texts import size_text
from tinyagi.settings.home import Home
from tinyagi.wiring import open_inbox


def found(home: Home) -> list[Finding]:
    return list(backups(CheckContext(home, {}, None)))


@pytest.fixture
def filled(home: Home, write_settings: WriteSettings) -> Home:
    async def open_once() -> None:
        async with open_inbox(home):
            pass

    write_settings()
    asyncio.run(open_once())
    return home


def test_a_home_without_a_database_needs_no_backup(home: Home) -> None:
    assert found(home) == []


def test_no_backup_is_a_hint(filled: Home) -> None:
    (finding,) = found(filled)

    assert (finding.level, finding.title) == (Level.HINT, "Backup")
    assert "tinyagi backup create" in finding.remedy


def test_a_recent_backup_is_ok_and_an_old_one_is_a_hint(filled: Home) -> None:
    path = create_backup(filled).path
    (finding,) = found(filled)
    assert finding.level is Level.OK
    assert finding.found == f"{path.name}, {size_text(path.stat().st_size)}"
    assert " 0.0 " not in finding.found

    long_ago = time.time() - (OLD_BACKUP_DAYS + 1) * 86_400
    os.utime(path, (long_ago, long_ago))

    (finding,) = found(filled)
    assert finding.level is Level.HINT
    assert f"{OLD_BACKUP_DAYS + 1} days old" in finding.found


def test_an_interrupted_restore_is_a_warning(filled: Home) -> None:
    filled.restore_journal.write_text("{}")

    finding = found(filled)[0]

    assert (finding.level, finding.title) == (Level.WARNING, "Restore")
    assert finding.remedy == "tinyagi start completes it."
