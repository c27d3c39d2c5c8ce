"""The lake service next to a daemon of an earlier version."""

import asyncio
from pathlib import Path

import apsw
import pytest

from tests.contract.conftest import CODER
from tinyagi.domain.errors import OlderDatabase
from tinyagi.lake_service import LakeService
from tinyagi.pipeline.progress import Progress
from tinyagi.settings.home import Home
from tinyagi.store.store import Store


async def test_the_pipeline_does_not_migrate_the_database_of_a_running_older_daemon(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    daemon = await Store.open(home.database)
    connection = apsw.Connection(str(home.database))
    connection.execute("DELETE FROM schema_migrations WHERE number = (SELECT max(number) FROM schema_migrations)")
    connection.close()
    before = _applied(home)
    async with daemon:
        for command in (lambda: LakeService(home).run(Progress()), lambda: LakeService(home).detach()):
            with pytest.raises(OlderDatabase, match="tinyagi restart"):
                await asyncio.to_thread(command)
        assert await daemon.lanes.pause(CODER)

    assert _applied(home) == before
    assert not home.lake.exists(), "Spark was not even started"


def _applied(home: Home) -> list[int]:
    connection = apsw.Connection(str(home.database))
    try:
        return [row[0] for row in connection.execute("SELECT number FROM schema_migrations ORDER BY number")]
    finally:
        connection.close()
