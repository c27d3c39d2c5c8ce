"""Backups of a home with a lake: the restored pair agrees, and a lake newer than its database is moved away."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.support import append_history, disagreeing, run, write_history
from tinyagi.backup.create import TEMPORARY, create
from tinyagi.backup.restore import restore
from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.lake import SPARK, Lake
from tinyagi.pipeline.manifest import LAKE_MANIFEST
from tinyagi.settings.home import Home

pytestmark = pytest.mark.timeout(900)

NOW = 1_794_971_700_000


def test_a_backup_excludes_the_temporary_folder_of_the_pipeline() -> None:
    assert SPARK in TEMPORARY
    assert LAKE_MANIFEST == "manifest.json"


def test_a_restored_lake_agrees_and_a_newer_lake_is_moved_away(spark: SparkSession, tmp_path: Path) -> None:
    home, other = Home(tmp_path / "home"), Home(tmp_path / "other")
    home.prepare()
    other.path.mkdir()
    lake = Lake(home.lake)
    write_history(home.database, 150, days=1)
    early = create(home, now=NOW).path
    run(spark, lake, home.database)
    # The database of the next backup is ahead of its lake, as with a running daemon.
    append_history(home.database, 50)
    whole = create(home, with_lake=True, now=NOW + 1_000).path
    run(spark, lake, home.database)

    restore(whole, other, now=NOW)
    restored = Lake(other.lake)
    assert disagreeing(spark, restored, other.database) == []
    assert run(spark, restored, other.database).events > 0

    done = restore(early, home, now=NOW)
    assert "The lake was newer" in done.notes[0]
    assert done.kept is not None
    (done.kept / "lake").rename(home.lake)
    with pytest.raises(PipelineError, match="made with --lake") as refused:
        run(spark, lake, home.database)
    remedy = re.search(r"mv '(.+)' '(.+)'", str(refused.value))
    assert remedy is not None
    Path(remedy[1]).rename(remedy[2])
    assert run(spark, lake, home.database).events > 0
