"""A run that has nothing to do is recognized from the manifest and the log, without Delta and Spark."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.conftest import CODER
from tinyagi.domain.messages import NewMessage
from tinyagi.pipeline.ingest.log_source import has_nothing_to_do
from tinyagi.pipeline.manifest import (
    FORMAT,
    LAKE_MANIFEST,
    LOG,
    LakeManifest,
    Pin,
    table_folder,
    write_manifest,
)
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.store.store import Store


async def home(folder: Path) -> tuple[Path, Path, LakeManifest]:
    """The lake, the database and the manifest of a home whose last run has brought in every event."""
    lake, database = folder / "lake", folder / "tinyagi.db"
    async with await Store.open(database) as store:
        await store.queue.enqueue(NewMessage("hello", CODER))
        head = (await store.events.bounds()).head
        await store.events.acknowledge("lake", head)
    lake.mkdir()
    manifest = LakeManifest(1, head, 0, {name: Pin(3, head) for name in TABLES})
    write_manifest(lake / LAKE_MANIFEST, manifest)
    return lake, database, manifest


async def test_nothing_is_to_do_when_every_event_is_in_every_table(tmp_path: Path) -> None:
    lake, database, _ = await home(tmp_path)

    assert has_nothing_to_do(lake, database)
    (lake / LAKE_MANIFEST).unlink()
    assert not has_nothing_to_do(lake, database)


async def test_a_new_event_or_an_earlier_cursor_needs_a_run(tmp_path: Path) -> None:
    lake, database, manifest = await home(tmp_path)
    write_manifest(lake / LAKE_MANIFEST, replace(manifest, through_id=manifest.through_id + 1))
    assert not has_nothing_to_do(lake, database), "the lake is ahead of the log and of its cursor"

    write_manifest(lake / LAKE_MANIFEST, manifest)
    async with await Store.open(database) as store:
        await store.queue.enqueue(NewMessage("more", CODER))

    assert not has_nothing_to_do(lake, database)


@pytest.mark.parametrize("table", ["bronze.events", "gold.alerts"])
async def test_a_version_of_a_killed_run_needs_a_run(table: str, tmp_path: Path) -> None:
    lake, database, _ = await home(tmp_path)
    log = table_folder(lake, table) / LOG
    log.mkdir(parents=True)
    (log / f"{4:020}.json").touch()

    assert not has_nothing_to_do(lake, database)


async def test_an_older_lake_needs_a_run(tmp_path: Path) -> None:
    lake, database, manifest = await home(tmp_path)
    write_manifest(lake / LAKE_MANIFEST, replace(manifest, format=FORMAT - 1))

    assert not has_nothing_to_do(lake, database)


def test_the_check_loads_nothing_heavy() -> None:
    heavy = "{'deltalake', 'pyarrow', 'pyspark'}"
    program = f"import sys, tinyagi.pipeline.ingest.log_source; sys.exit(bool({heavy} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
