"""The lake for those who read it: every table as the last finished run left it. Needs no Java and no Spark.

from tinyagi.pipeline import lake
lake.table("silver.runs").to_pyarrow_table(columns=["agent", "cost"])
"""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from tinyagi.domain.errors import NotFound
from tinyagi.pipeline.manifest import Manifest, read_manifest
from tinyagi.pipeline.schema import arrow_schema
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.tables.model import DATE
from tinyagi.settings.home import Home, find_home

MANIFEST: Final = "manifest.json"


class Lake:
    """One lake folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Where a table lies, whether or not it is there yet."""
        layer, _, rest = find_table(name).name.partition(".")
        return self.folder / layer / rest

    @property
    def manifest_file(self) -> Path:
        return self.folder / MANIFEST

    def manifest(self) -> Manifest | None:
        return read_manifest(self.manifest_file)

    def delta(self, name: str, *, as_of: int | datetime | None = None) -> DeltaTable:
        """The table as of the manifest, or as of an own version or instant; raise NotFound when it is not there."""
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

    def rows(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        as_of: int | datetime | None = None,
    ) -> pa.Table:
        """Rows of a table, filtered while its files are read. A column that an older lake lacks is null."""
        schema = arrow_schema(find_table(name))
        dataset = self.delta(name, as_of=as_of).to_pyarrow_dataset(schema=schema)
        return dataset.to_table(columns=list(columns or schema.names), filter=where)


def table(name: str, *, as_of: int | datetime | None = None, home: Home | None = None) -> DeltaTable:
    """A table of a home's lake, by default of `TINYAGI_HOME`: for Arrow, pandas, or any reader of Delta."""
    return Lake((home or find_home()).lake).delta(name, as_of=as_of)


def between(first: object, last: object) -> pc.Expression:
    """Partitions of these days, both included."""
    day = pc.field(DATE)
    return (day >= pa.scalar(first, pa.date32())) & (day <= pa.scalar(last, pa.date32()))
