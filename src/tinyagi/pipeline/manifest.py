"""The manifest of a lake: the versions of all tables that belong together.

Imports nothing heavy, so that a query starts fast and a run that has nothing to do ends at once.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tinyagi.pipeline.errors import LakeBroken
from tinyagi.system.files import put_in_place, write_aside

LAKE_MANIFEST: Final = "manifest.json"
LOG: Final = "_delta_log"
FORMAT: Final = 2
"""Of the manifest and of the tables' types; 1 stored instants as milliseconds."""


@dataclass(frozen=True, slots=True)
class Pin:
    version: int
    """The table's Delta version."""
    through_id: int
    """The last event that the table includes."""


@dataclass(frozen=True, slots=True)
class LakeManifest:
    floor: int
    """The oldest event in bronze."""
    through_id: int
    """The last event that every table includes."""
    written_at: int
    tables: Mapping[str, Pin]
    format: int = FORMAT


def table_folder(lake: Path, name: str) -> Path:
    """The folder of a table, whether or not it exists yet."""
    layer, _, rest = name.partition(".")
    return lake / layer / rest


def read_manifest(path: Path) -> LakeManifest | None:
    """None when no run has ended yet."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise LakeBroken(f"{path} cannot be read: {error}. Delete it and run `tinyagi pipeline run`.") from error
    if found.get("format") not in range(1, FORMAT + 1):
        raise LakeBroken(
            f"{path} was written by another version of TinyAGI (format {found.get('format')}). Update this one."
        )
    tables = {name: Pin(**pin) for name, pin in found["tables"].items()}
    return LakeManifest(found["floor"], found["through_id"], found["written_at"], tables, found["format"])


def write_manifest(path: Path, manifest: LakeManifest) -> None:
    """Replace the manifest atomically: a reader sees the old one or the new one."""
    content = json.dumps(asdict(manifest), indent=1, sort_keys=True)
    put_in_place(write_aside(path, content.encode()), path)
