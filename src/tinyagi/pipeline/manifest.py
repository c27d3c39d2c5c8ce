"""Which version of each table belongs together. Readers see what it names, and nothing that is half done."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tinyagi.pipeline.errors import LakeBroken
from tinyagi.system.files import put_in_place, write_aside

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Pin:
    version: int
    """The table's Delta version."""
    through_id: int
    """The last event that is part of it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    floor: int
    """The first event that was still in the log when the lake began."""
    through_id: int
    """The last event that is part of every table."""
    written_at: int
    tables: Mapping[str, Pin]


def read_manifest(path: Path) -> Manifest | None:
    """None when no run has ended yet."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise LakeBroken(f"{path} cannot be read: {error}. Delete it and run `tinyagi pipeline run`.") from error
    if found.get("format") != FORMAT:
        raise LakeBroken(
            f"{path} was written by another version of TinyAGI (format {found.get('format')}). Update this one."
        )
    tables = {name: Pin(**pin) for name, pin in found["tables"].items()}
    return Manifest(found["floor"], found["through_id"], found["written_at"], tables)


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Replace it as a whole: a reader finds the old one or the new one."""
    content = json.dumps({"format": FORMAT, **asdict(manifest)}, indent=1, sort_keys=True)
    put_in_place(write_aside(path, content.encode()), path)
