"""The record of erasures in the lake and the key of its hashes, so that events that arrive later are redacted too.

It holds hashes, no names.
"""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tinyagi.domain.erasure import Erasure, Redaction
from tinyagi.domain.instants import utc_day
from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.catalog import ERASURES
from tinyagi.pipeline.tables.model import DATE
from tinyagi.settings.home import Home
from tinyagi.system.files import sync

_KEY: Final = "erasures.key"
_KEY_BYTES: Final = 32


def key_file(home: Home) -> Path:
    """The file of the hash key. Without the key, later events of an erased person cannot be recognized."""
    return home.path / _KEY


def find_key(home: Home) -> bytes | None:
    try:
        key = key_file(home).read_bytes()
    except FileNotFoundError:
        return None
    if len(key) != _KEY_BYTES:
        raise LakeBroken(f"{key_file(home)} is damaged: it has {len(key)} bytes. Restore it from a backup.")
    return key


def make_key(home: Home) -> bytes:
    """The home's key, created on first use and readable by its owner only."""
    known = find_key(home)
    if known is not None:
        return known
    key = secrets.token_bytes(_KEY_BYTES)
    descriptor = os.open(key_file(home), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    sync(home.path)
    return key


def erasures_of(lake: Lake) -> tuple[Erasure, ...]:
    """All erasures of the newest version, not the manifest's, because an interrupted erasure counts too."""
    if not lake.exists(ERASURES.name):
        return ()
    columns = [column.name for column in ERASURES.columns]
    rows: list[dict[str, Any]] = lake.newest(ERASURES.name).to_pyarrow_table(columns=columns).to_pylist()
    return tuple(_erasure(row) for row in sorted(rows, key=lambda row: int(row["erased_at"])))


def redactions_of(home: Home, lake: Lake, *, after: int = 0) -> tuple[Redaction, ...]:
    """The erasures that cover events after this id; almost always none."""
    erasures = [erasure for erasure in erasures_of(lake) if erasure.through_id > after]
    if not erasures:
        return ()
    key = find_key(home)
    if key is None:
        raise LakeBroken(
            f"People were erased from {lake.folder}, but {key_file(home)} is missing, so their later events cannot be "
            "recognized. Restore the file from a backup."
        )
    return tuple(Redaction(key, erasure) for erasure in erasures)


def is_erased(erasures: Sequence[Erasure], message_id: str | None, conversation_id: str | None) -> bool:
    return any(message_id in erasure.messages or conversation_id in erasure.conversations for erasure in erasures)


def erasure_row(erasure: Erasure) -> dict[str, Any]:
    """As a row of ops.erasures."""
    sets = {name: sorted(getattr(erasure, name)) for name in ("marks", "conversations", "messages", "agents")}
    plain = {name: getattr(erasure, name) for name in ("pseudonym", "channel", "through_id", "erased_at")}
    return {**plain, **sets, DATE: utc_day(erasure.erased_at)}


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
