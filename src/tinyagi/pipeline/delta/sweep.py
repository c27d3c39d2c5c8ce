"""Staging folders, and the removal of what a killed writer or a power loss left: staged, moved and torn files."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deltalake import DeltaTable

from tinyagi.pipeline.delta.log_files import repair
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.catalog import TABLES

STAGE: Final = "_stage"
"""The folder below a table in which files are written; readers of Delta never look into it."""
CHECKPOINTS: Final = "_checkpoints"
_LIST: Final = "moving.txt"


@contextmanager
def staging(table: Path) -> Iterator[Path]:
    """A folder to write files in; those that no commit takes from there are deleted with it."""
    folder = table / STAGE / uuid.uuid4().hex
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
    finally:
        discard(table, folder)


def announce(stage: Path, targets: list[str]) -> None:
    """Write down which files are about to be moved into the table, so that a sweep can find them."""
    (stage / _LIST).write_text("\n".join(targets))


def sweep(lake: Lake) -> None:
    """Under the writer lock only, when nobody can be in the middle of a commit."""
    shutil.rmtree(lake.folder / CHECKPOINTS, ignore_errors=True)
    manifest = lake.manifest()
    for name in TABLES:
        pin = manifest.tables.get(name) if manifest else None
        repair(lake.path(name), -1 if pin is None else pin.version)
        for stage in (lake.path(name) / STAGE).glob("*"):
            discard(lake.path(name), stage)


def discard(table: Path, stage: Path) -> None:
    """Remove a staging folder, and what was moved out of it unless the table has it by now."""
    announced = stage / _LIST
    if announced.is_file():
        handle = DeltaTable(table)
        known = {Path(uri).relative_to(table).as_posix() for uri in handle.file_uris()}
        for target in announced.read_text().splitlines():
            # A power loss may have cut the list in the middle of a name.
            if target not in known and (table / target).is_file():
                (table / target).unlink()
    shutil.rmtree(stage, ignore_errors=True)
