"""One lake on disk: its tables, the manifest that pins their versions, and the writer lock. Needs no Java and no Spark.

`table` is the public entry: a table as the last finished run left it.

from tinyagi.pipeline import lake
lake.table("silver.runs").to_pyarrow_table(columns=["agent", "cost"])
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from tinyagi.domain.errors import NotFound
from tinyagi.pipeline.errors import LakeBusy
from tinyagi.pipeline.instants import During, in_millis, stored_schema
from tinyagi.pipeline.manifest import LAKE_MANIFEST, LakeManifest, read_manifest, table_folder
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.tables.model import DATE
from tinyagi.settings.home import Home, find_home
from tinyagi.system.files import make_folder, private_files

SPARK: Final = "_spark"
"""The folder below a lake for Spark's temporary files."""


class Lake:
    """One lake folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """The folder of a table, whether or not it exists yet."""
        return table_folder(self.folder, find_table(name).name)

    @property
    def manifest_file(self) -> Path:
        return self.folder / LAKE_MANIFEST

    def manifest(self) -> LakeManifest | None:
        return read_manifest(self.manifest_file)

    def delta(self, name: str, *, as_of: int | datetime | None = None) -> DeltaTable:
        """The table as of the manifest, or as of a given version or instant; raise NotFound if it does not exist."""
        table = find_table(name)
        if as_of is None:
            manifest = self.manifest()
            if manifest is None or table.name not in manifest.tables:
                raise NotFound(f"The lake has no {name} yet. Run `tinyagi pipeline run`.")
            as_of = manifest.tables[table.name].version
        handle = DeltaTable(self.path(name), version=as_of if isinstance(as_of, int) else None)
        if isinstance(as_of, datetime):
            handle.load_as_version(as_of)
        return handle

    def exists(self, name: str) -> bool:
        return DeltaTable.is_deltatable(str(self.path(name)))

    def newest(self, name: str) -> DeltaTable:
        """The newest version of an existing table: after an interruption, it is newer than the manifest's."""
        return DeltaTable(self.path(name))

    def rows(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        during: During | None = None,
        as_of: int | datetime | None = None,
    ) -> pa.Table:
        """Rows of a table, filtered during the scan, with instants in milliseconds.

        A column that an older lake lacks is null.
        """
        handle = self.delta(name, as_of=as_of)
        schema = stored_schema(find_table(name), handle)
        chosen = [each for each in (where, None if during is None else during.expression(schema)) if each is not None]
        found = handle.to_pyarrow_dataset(schema=schema).to_table(
            columns=list(columns or schema.names), filter=reduce(and_, chosen) if chosen else None
        )
        return in_millis(found)


def table(name: str, *, as_of: int | datetime | None = None, home: Home | None = None) -> DeltaTable:
    """A table of a home's lake, by default of `TINYAGI_HOME`: for Arrow, pandas, or any reader of Delta."""
    return Lake((home or find_home()).lake).delta(name, as_of=as_of)


def between(first: object, last: object) -> pc.Expression:
    """A filter for the partitions from `first` to `last`, both included."""
    day = pc.field(DATE)
    return (day >= pa.scalar(first, pa.date32())) & (day <= pa.scalar(last, pa.date32()))


@contextlib.contextmanager
def writer_lock(folder: Path, purpose: str, group: str = "pipeline") -> Iterator[None]:
    """Lock the lake for writing, or raise LakeBusy at once and name the holder. The lock ends with its process.

    Files written in the block are readable by their owner only.
    """
    make_folder(folder, 0o700)
    path = folder / ".writer.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
            raise LakeBusy(f"The lake {folder} is being written by {holder}. Try again when that is done.") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"`{group} {purpose}`, process {os.getpid()}".encode(), 0)
        # Spark starts inside this block and inherits the umask.
        with private_files():
            yield
    finally:
        os.close(descriptor)
