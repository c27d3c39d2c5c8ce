"""The keeper beside a daemon of an earlier version."""

import asyncio
from pathlib import Path

import apsw
import pytest

from tests.contract.conftest import CODER
from tinyagi.domain.errors import OlderDatabase
from tinyagi.keeper import Keeper
from tinyagi.pipeline.progress import Silent
from tinyagi.settings.home import Home
from tinyagi.store.sqlite import migrations
from tinyagi.store.sqlite.store import SqliteStore
from tinyagi.store.statements import load_migrations


async def test_after_an_upgrade_no_pipeline_migrates_the_database_under_the_old_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "load_migrations", lambda _: load_migrations("sqlite")[:-1])
        daemon = await SqliteStore.open(home.database)
    before = _applied(home)
    async with daemon:
        for command in (lambda: Keeper(home).run(Silent()), lambda: Keeper(home).detach()):
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
