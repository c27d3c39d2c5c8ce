"""Reads the lake's small tables for a report: the versions that belong together, the asked days, no Spark."""

from collections.abc import Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import TableNotFoundError

from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.lake import Lake, between
from tinyagi.pipeline.manifest import Manifest
from tinyagi.pipeline.schema import arrow_schema
from tinyagi.pipeline.tables.catalog import find_table


class GoldReader:
    """The days of one report, of the tables that one manifest names."""

    def __init__(self, lake: Lake, manifest: Manifest, first: date, last: date) -> None:
        self._lake = lake
        self._manifest = manifest
        self._days = between(first, last)
        self.missing: list[str] = []
        """Tables that were asked for and are not there."""

    def rows(self, name: str, columns: Sequence[str], where: pc.Expression | None = None) -> pa.Table:
        """Rows of the asked days; none when the table is not there. Raise LakeBroken when its files are not."""
        pin = self._manifest.tables.get(name)
        try:
            if pin is not None:
                days = self._days if where is None else self._days & where
                return self._lake.rows(name, columns=columns, where=days, as_of=pin.version)
        except TableNotFoundError:
            pass
        except FileNotFoundError as error:
            raise LakeBroken(
                f"Files of {name} are gone: the lake was cleaned up while it was read. Ask again; if it stays so, "
                "run `tinyagi pipeline verify`."
            ) from error
        if name not in self.missing:
            self.missing.append(name)
        schema = arrow_schema(find_table(name))
        return pa.schema([schema.field(column) for column in columns]).empty_table()


def whole(value: object) -> int:
    """A count or an instant; 0 for none."""
    return int(value) if isinstance(value, int | float) else 0


def real(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def measured(value: object) -> float | None:
    """A duration, or None when nothing was measured."""
    return float(value) if isinstance(value, int | float) else None


def instant(value: object) -> int | None:
    return int(value) if isinstance(value, int) else None


def text(value: object) -> str:
    return value if isinstance(value, str) else ""
