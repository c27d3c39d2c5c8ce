"""What the lake remembers of erasures, so that facts which turn up later are erased as well. Names nobody."""

import datetime as dt
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable

from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.model import DATE
from tinyagi.pipeline.tables.ops import ERASURES
from tinyagi.settings.home import Home
from tinyagi.store.erasing import Erasure, Redaction
from tinyagi.system.files import sync

_KEY: Final = "erasures.key"
_BYTES: Final = 32


def key_file(home: Home) -> Path:
    """The key that the hashes are made with. Without it no further fact can be told to be somebody's."""
    return home.path / _KEY


def find_key(home: Home) -> bytes | None:
    try:
        key = key_file(home).read_bytes()
    except FileNotFoundError:
        return None
    if len(key) != _BYTES:
        raise LakeBroken(f"{key_file(home)} is damaged: it has {len(key)} bytes. Put back the one of a backup.")
    return key


def make_key(home: Home) -> bytes:
    """The home's key, made at its first use and readable for its owner only."""
    known = find_key(home)
    if known is not None:
        return known
    key = secrets.token_bytes(_BYTES)
    descriptor = os.open(key_file(home), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    sync(home.path)
    return key


def erasures_of(lake: Lake) -> tuple[Erasure, ...]:
    """All of them as of now, whatever the manifest says: an erasing that was cut off counts."""
    folder = lake.path(ERASURES.name)
    if not DeltaTable.is_deltatable(str(folder)):
        return ()
    columns = [column.name for column in ERASURES.columns]
    rows: list[dict[str, Any]] = DeltaTable(folder).to_pyarrow_table(columns=columns).to_pylist()
    return tuple(_erasure(row) for row in sorted(rows, key=lambda row: int(row["erased_at"])))


def redactions_of(home: Home, lake: Lake, *, after: int = 0) -> tuple[Redaction, ...]:
    """What still has to be applied to events beyond this one: nearly always nothing."""
    erasures = [erasure for erasure in erasures_of(lake) if erasure.through_id > after]
    if not erasures:
        return ()
    key = find_key(home)
    if key is None:
        raise LakeBroken(
            f"People were erased from {lake.folder}, but {key_file(home)} is gone, so their later facts cannot be "
            "told. Put the file back from a backup."
        )
    return tuple(Redaction(key, erasure) for erasure in erasures)


def is_erased(erasures: Sequence[Erasure], message_id: str | None, conversation_id: str | None) -> bool:
    return any(message_id in one.messages or conversation_id in one.conversations for one in erasures)


def row_of(erasure: Erasure) -> dict[str, Any]:
    """As a row of ops.erasures."""
    day = dt.datetime.fromtimestamp(erasure.erased_at / 1000, dt.UTC).date()
    sets = {name: sorted(getattr(erasure, name)) for name in ("marks", "conversations", "messages", "agents")}
    plain = {name: getattr(erasure, name) for name in ("pseudonym", "channel", "through_id", "erased_at")}
    return {**plain, **sets, DATE: day}


def _erasure(row: dict[str, Any]) -> Erasure:
    return Erasure(
        row["pseudonym"],
        row["channel"],
        frozenset(row["marks"]),
        row["through_id"],
        frozenset(row["conversations"]),
        frozenset(row["messages"]),
        frozenset(row["agents"]),
        row["erased_at"],
    )
