"""Takes away what a killed writer left behind: staged files, and files it had moved but not committed."""

import shutil
from pathlib import Path
from typing import Final

from deltalake import DeltaTable

from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.catalog import TABLES

STAGE: Final = "_stage"
"""The folder below a table in which files are written; readers of Delta never look into it."""
CHECKPOINTS: Final = "_checkpoints"
_LIST: Final = "moving.txt"


def announce(stage: Path, targets: list[str]) -> None:
    """Write down which files are about to be moved into the table, so that a sweep can find them."""
    (stage / _LIST).write_text("\n".join(targets))


def sweep(lake: Lake) -> None:
    """Under the writer lock only, when nobody can be in the middle of a commit."""
    shutil.rmtree(lake.folder / CHECKPOINTS, ignore_errors=True)
    for name in TABLES:
        for stage in (lake.path(name) / STAGE).glob("*"):
            discard(lake.path(name), stage)


def discard(table: Path, stage: Path) -> None:
    """Remove a staging folder, and what was moved out of it unless the table has it by now."""
    announced = stage / _LIST
    if announced.is_file():
        handle = DeltaTable(table)
        known = {Path(uri).relative_to(table).as_posix() for uri in handle.file_uris()}
        for target in announced.read_text().splitlines():
            if target not in known:
                (table / target).unlink(missing_ok=True)
    shutil.rmtree(stage, ignore_errors=True)
