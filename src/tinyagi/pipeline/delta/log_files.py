"""The files of a table's Delta log. delta-rs syncs none of them: a power loss can tear those of the newest version."""

import json
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tinyagi.system.files import sync

LOG: Final = "_delta_log"
_HINT: Final = "_last_checkpoint"


def sync_version(table: Path, version: int) -> None:
    """Make a version durable. Every writer calls this before the next version, so no other one is ever torn."""
    log = table / LOG
    checkpoints = _checkpoints(log, version)
    hint = log.glob(_HINT) if checkpoints else ()
    for file in (_entry(log, version), *checkpoints, *hint):
        sync(file)
    sync(log)


def repair(table: Path, durable: int) -> None:
    """Drop what a power loss tore of a version beyond the durable one, and make the rest durable."""
    log = table / LOG
    newest = max((int(file.stem) for file in log.glob("*.json") if file.stem.isdigit()), default=-1)
    if newest <= durable:
        return
    # First: without its checkpoint the hint makes a table unreadable, and without the hint it is only listed.
    (log / _HINT).unlink(missing_ok=True)
    is_torn = not _is_json(_entry(log, newest))
    for file in _checkpoints(log, newest):
        if is_torn or not _is_parquet(file):
            file.unlink()
    if is_torn:
        _entry(log, newest).unlink()
        sync(log)
    else:
        sync_version(table, newest)


def _entry(log: Path, version: int) -> Path:
    return log / f"{version:020}.json"


def _checkpoints(log: Path, version: int) -> list[Path]:
    return sorted(log.glob(f"{version:020}.checkpoint*.parquet"))


def _is_json(file: Path) -> bool:
    lines = file.read_bytes().splitlines()
    try:
        return bool([json.loads(line) for line in lines])
    except ValueError:
        return False


def _is_parquet(file: Path) -> bool:
    try:
        pq.read_table(file)
    except (pa.ArrowException, OSError):
        return False
    return True
