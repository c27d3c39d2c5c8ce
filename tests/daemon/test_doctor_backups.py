"""The doctor reminds of backups, and says when a restore was cut off."""

import asyncio
import os
import time

import pytest

from tests.backup.conftest import made
from tests.daemon.conftest import Furnish
from tinyagi.daemon.doctor.backups import OLD_DAYS, backups
from tinyagi.daemon.doctor.findings import Finding, Level, Subject
from tinyagi.settings.home import Home
from tinyagi.wiring import open_inbox


def found(home: Home) -> list[Finding]:
    return list(backups(Subject(home, {}, None)))


@pytest.fixture
def filled(home: Home, furnish: Furnish) -> Home:
    async def open_once() -> None:
        async with open_inbox(home):
            pass

    furnish()
    asyncio.run(open_once())
    return home


def test_a_home_without_a_database_needs_no_backup(home: Home) -> None:
    assert found(home) == []


def test_no_backup_is_a_hint(filled: Home) -> None:
    (finding,) = found(filled)

    assert (finding.level, finding.title) == (Level.HINT, "Backup")
    assert "tinyagi backup create" in finding.remedy


def test_a_new_backup_is_well_and_an_old_one_is_a_hint(filled: Home) -> None:
    path = made(filled).path
    assert [finding.level for finding in found(filled)] == [Level.OK]

    long_ago = time.time() - (OLD_DAYS + 1) * 86_400
    os.utime(path, (long_ago, long_ago))

    (finding,) = found(filled)
    assert finding.level is Level.HINT
    assert f"{OLD_DAYS + 1} days old" in finding.found


def test_a_restore_that_was_cut_off_is_a_warning(filled: Home) -> None:
    filled.restore_journal.write_text("{}")

    finding = found(filled)[0]

    assert (finding.level, finding.title) == (Level.WARNING, "Restore")
    assert finding.remedy == "tinyagi start completes it."
