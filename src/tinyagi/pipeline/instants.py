"""Instants of the lake, between stored timestamps and the integer milliseconds of the rest of the program.

Silver and gold of an earlier version store milliseconds, until a run rebuilds them. Arrow would read those as
microseconds, so readers ask for the schema as it is stored.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from tinyagi.pipeline.tables.model import FIRST_INSTANT, LAST_INSTANT, Table
from tinyagi.pipeline.tables.schema import arrow_schema

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class During:
    """A filter on an instant column: from `first` to `last` in ms, both included; None is no limit."""

    column: str
    first: int | None = None
    last: int | None = None

    def expression(self, schema: pa.Schema) -> pc.Expression:
        """For rows of this schema, which may store the instant in either way."""
        kind, field = schema.field(self.column).type, pc.field(self.column)
        where = pc.scalar(True)
        if self.first is not None:
            where &= field >= _scalar(self.first, kind)
        if self.last is not None:
            where &= field <= _scalar(self.last, kind)
        return where


def time_of(ms: int) -> datetime:
    """The instant in UTC, clamped to the years 1 to 9999."""
    return _EPOCH + timedelta(milliseconds=min(max(ms, FIRST_INSTANT), LAST_INSTANT))


def in_millis(rows: pa.Table) -> pa.Table:
    """The rows with every timestamp column as integer milliseconds."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            # Stored timestamps are whole milliseconds; other writers may be finer.
            whole = rows.column(place).cast(pa.timestamp("ms", field.type.tz), safe=False)
            rows = rows.set_column(place, field.name, whole.cast(pa.int64()))
    return rows


def stored_schema(table: Table, handle: DeltaTable) -> pa.Schema:
    """The declared schema, with integers for the timestamps that this version of the table stores as milliseconds."""
    stored = {field.name for field in pa.schema(handle.schema()) if pa.types.is_int64(field.type)}
    return pa.schema(
        [
            field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) and field.name in stored else field
            for field in arrow_schema(table)
        ]
    )


def _scalar(ms: int, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(time_of(ms) if pa.types.is_timestamp(kind) else ms, kind)
