"""What a file says about its rows: how many, and the bounds of columns that searches use."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from tinyagi.pipeline.tables.model import Table

Bound = int | float | str

_BOUNDED: Final = frozenset({"long", "int", "string"})
_LONGEST: Final = 128
"""Characters of a text that is worth being a bound."""


@dataclass(frozen=True, slots=True)
class FileStatistics:
    rows: int
    minimum: Mapping[str, Bound] = field(default_factory=dict)
    maximum: Mapping[str, Bound] = field(default_factory=dict)
    nulls: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": dict(self.minimum),
                "maxValues": dict(self.maximum),
                "nullCount": dict(self.nulls),
            }
        )


def bounded_columns(table: Table) -> frozenset[str]:
    """Columns whose bounds go into the table's log. Never what people wrote: a log is not rewritten by `forget`."""
    return frozenset(column.name for column in table.columns if column.type in _BOUNDED and not column.personal)


def statistics_of(file: Path, table: Table) -> FileStatistics:
    """From the file's footer, without reading its rows."""
    footer = pq.read_metadata(file)
    wanted = bounded_columns(table)
    found: dict[str, list[pq.Statistics | None]] = {}
    for group in range(footer.num_row_groups):
        row_group = footer.row_group(group)
        for place in range(row_group.num_columns):
            column = row_group.column(place)
            if column.path_in_schema in wanted:
                found.setdefault(column.path_in_schema, []).append(column.statistics)
    minimum: dict[str, Bound] = {}
    maximum: dict[str, Bound] = {}
    nulls: dict[str, int] = {}
    for name, groups in found.items():
        told = [one for one in groups if one is not None and one.has_null_count]
        if len(told) < len(groups):
            continue
        nulls[name] = sum(one.null_count for one in told)
        bounded = [one for one in told if one.has_min_max]
        # A group that has values but no bounds leaves the file without them: half a bound is a wrong one.
        if not bounded or any(not one.has_min_max and one.num_values for one in told):
            continue
        low, high = min(one.min for one in bounded), max(one.max for one in bounded)
        if not isinstance(high, str) or max(len(low), len(high)) <= _LONGEST:
            minimum[name], maximum[name] = low, high
    return FileStatistics(footer.num_rows, minimum, maximum, nulls)
