"""The declaration of a table: columns, meanings, and how its rows are kept. Imports neither Spark nor Delta."""

import datetime as dt
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Merge(StrEnum):
    """How the values of a column from earlier and later events merge into one row."""

    FIRST = "first"
    """The earliest value that is not null."""
    LAST = "last"
    """The latest value that is not null; an empty text resets the column to null."""
    SUM = "sum"
    MAX = "max"
    GATHER = "gather"
    """The arrays of all events, concatenated."""
    DERIVED = "derived"
    """Computed from the other columns of the merged row."""


class Kept(StrEnum):
    """How the rows of a table are added and changed."""

    APPENDED = "append"
    FOLDED = "folded"
    """New row = fold(old row, later events): only files with changed rows are replaced."""
    REPLACED = "touched dates replaced"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    """`long`, `int`, `double`, `string`, `boolean`, `date`, `timestamp`; or an `array<…>` or `struct<name:type,…>`."""
    meaning: str
    unit: str = ""
    personal: bool = False
    """True when it may hold texts or names of people, which `forget` erases."""
    merge: Merge = Merge.DERIVED


DATE: Final = "date"
"""The partition column of every table."""
FIRST_DATE: Final = dt.date(2020, 1, 1)
"""The first partition. An earlier instant came from a wrong clock."""
LAST_DATE: Final = dt.date(2100, 1, 1)
"""The last partition."""
FIRST_INSTANT: Final = -62_135_596_800_000
"""The first timestamp, in ms: the start of the year 1."""
LAST_INSTANT: Final = 253_402_300_799_999
"""The last timestamp, in ms: the end of the year 9999, beyond which Python has no dates."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    """`layer.name`; the folder below the lake is `layer/name`."""
    meaning: str
    """What one row is."""
    key: tuple[str, ...]
    """Also the order of the rows within a file."""
    kept: Kept
    date: str
    """The instant that gives the partition's date."""
    columns: tuple[Column, ...]

    @property
    def layer(self) -> str:
        return self.name.partition(".")[0]

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The columns, then the partition's date."""
        return (*self.columns, Column(DATE, "date", f"Day, in UTC, of {self.date}; the partition."))


MS: Final = "ms"
INSTANT: Final = "ms since 1970 UTC"
"""The unit of an instant in bronze, quarantine and ops, which keep what was recorded."""
TIMESTAMP: Final = "timestamp"
"""The type of an instant in silver and gold, in microseconds, so that every reader of Delta sees a time."""
UTC: Final = "UTC"
"""The unit of a timestamp."""
LAST_EVENT_ID: Final = Column("last_event_id", "long", "The latest event included in this row.", merge=Merge.MAX)
