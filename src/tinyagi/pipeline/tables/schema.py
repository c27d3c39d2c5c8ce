"""The Arrow schema of a table, from its declaration. The only module here that needs pyarrow."""

from typing import Final

import pyarrow as pa

from tinyagi.pipeline.tables.model import Table

_SIMPLE: Final = {
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a declared column type."""
    if text.startswith("array<"):
        # Delta readers expect the name `element`; Arrow's default is `item`.
        return pa.list_(pa.field("element", arrow_type(text[len("array<") : -1])))
    if text.startswith("struct<"):
        pairs = [pair.split(":") for pair in text[len("struct<") : -1].split(",")]
        return pa.struct([pa.field(name, arrow_type(kind)) for name, kind in pairs])
    return _SIMPLE[text]


def arrow_schema(table: Table) -> pa.Schema:
    """All columns, then the partition's date."""
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in table.all_columns])
