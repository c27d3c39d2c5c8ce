"""What a table of the lake is: its columns, their meaning, and how its rows are kept. Knows neither Spark nor Delta."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Merge(StrEnum):
    """How a column of a folded row comes from what earlier and later events say about it."""

    FIRST = "first"
    """What the earliest event says that says anything."""
    LAST = "last"
    """What the latest event says that says anything; an empty text takes back what was said."""
    SUM = "sum"
    MAX = "max"
    GATHER = "gather"
    """An array that every event may add to."""
    DERIVED = "derived"
    """Worked out from the other columns when the row is complete."""


class Kept(StrEnum):
    """How the rows of a table come and change."""

    APPENDED = "append"
    FOLDED = "folded"
    """New row = fold(old row, later events): only files that hold touched rows are replaced."""
    REPLACED = "touched dates replaced"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    """`long`, `int`, `double`, `string`, `boolean`, `date`, or `array<…>` and `struct<name:type,…>` of these."""
    meaning: str
    unit: str = ""
    personal: bool = False
    """True when it may hold what people wrote or who they are: erased by `forget`."""
    merge: Merge = Merge.DERIVED


DATE: Final = "date"
"""The partition column of every table."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    """`layer.name`; the folder below the lake is `layer/name`."""
    meaning: str
    """What one row is."""
    key: tuple[str, ...]
    kept: Kept
    date: str
    """Of what instant the partition's date is."""
    columns: tuple[Column, ...]
    sorted_by: tuple[str, ...] = ()
    """The order of the rows within a file; by default that of the key."""

    @property
    def layer(self) -> str:
        return self.name.partition(".")[0]

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The columns and the partition's date, which comes last."""
        return (*self.columns, Column(DATE, "date", f"Day, in UTC, of {self.date}; the partition."))

    @property
    def order(self) -> tuple[str, ...]:
        return self.sorted_by or self.key

    def column(self, name: str) -> Column:
        return next(column for column in self.all_columns if column.name == name)


MS: Final = "ms"
INSTANT: Final = "ms since 1970 UTC"
LAST_EVENT: Final = Column("last_event_id", "long", "The latest event that is part of this row.", merge=Merge.MAX)
