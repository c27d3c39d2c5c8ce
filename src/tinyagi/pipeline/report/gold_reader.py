"""Reads gold tables for a report: the manifest's versions, the days of the range, no Spark."""

from collections.abc import Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import TableNotFoundError

from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.lake import Lake, LakeManifest, between
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.tables.schema import arrow_schema


class GoldReader:
    """Tables of one manifest, limited to the days of one report."""

    def __init__(self, lake: Lake, manifest: LakeManifest, first: date, last: date) -> None:
        self._lake = lake
        self._manifest = manifest
        self._days = between(first, last)
        self.missing: list[str] = []
        """Requested tables that do not exist."""

    def rows(self, name: str, columns: Sequence[str], where: pc.Expression | None = None) -> pa.Table:
        """Rows within the days; empty for a missing table. Raise LakeBroken when files of it are gone."""
        pin = self._manifest.tables.get(name)
        try:
            if pin is not None:
                days = self._days if where is None else self._days & where
                return self._lake.rows(name, columns=columns, where=days, as_of=pin.version)
        except TableNotFoundError:
            pass
        except FileNotFoundError as error:
            raise LakeBroken(
                f"Files of {name} are gone: a vacuum ran during the read. Try again; if it fails again, "
                "run `tinyagi pipeline verify`."
            ) from error
        if name not in self.missing:
            self.missing.append(name)
        schema = arrow_schema(find_table(name))
        return pa.schema([schema.field(column) for column in columns]).empty_table()


def whole(value: object) -> int:
    """A count or an instant; 0 for null."""
    return int(value) if isinstance(value, int | float) else 0


def real(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def measured(value: object) -> float | None:
    """A duration, or None for null."""
    return float(value) if isinstance(value, int | float) else None


def instant(value: object) -> int | None:
    return int(value) if isinstance(value, int) else None


def text(value: object) -> str:
    return value if isinstance(value, str) else ""
