"""The event log as a source of Spark, `tinyagi_events`: in batches by id range, and as a stream by cursor.

The stream acknowledges nothing: what is archived is told by the lake's manifest, not by Spark's checkpoints.
"""

import gc
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol, Self

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from tinyagi.domain.errors import InvalidInput
from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.log_api import LogApi
from tinyagi.store.sqlite.log_file import LogFile, LogRow, Tally

NAME: Final = "tinyagi_events"
SCHEMA: Final = StructType(
    [
        StructField("id", LongType(), nullable=False),
        StructField("type", StringType(), nullable=False),
        StructField("version", IntegerType(), nullable=False),
        StructField("message_id", StringType()),
        StructField("conversation_id", StringType()),
        StructField("conversation_started_at", LongType()),
        StructField("agent", StringType()),
        StructField("payload", StringType(), nullable=False),
        StructField("created_at", LongType(), nullable=False),
    ]
)
PARTITIONS: Final = 2
SMALLEST_PARTITION: Final = 5_000
"""A task for fewer ids costs more than it saves."""

Offset = dict[str, int]


class Log(AbstractContextManager["Log"], Protocol):
    """What both ways to the log can tell; see LogFile."""

    def head(self) -> int: ...
    def first_after(self, after: int) -> int | None: ...
    def end_of(self, after: int, rows: int, through: int) -> int: ...
    def tally(self, after: int, through: int) -> Tally: ...
    def pages(self, after: int, through: int, types: Collection[str] | None = None) -> Iterator[list[LogRow]]: ...


@dataclass(frozen=True, slots=True)
class Options:
    """Where the log is, by file or by address, and which part of it is wanted."""

    db: Path | None
    url: str | None
    token: str | None
    partitions: int
    initial: int
    max_rows: int | None
    after: int
    through: int | None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Raise InvalidInput for an option that does not exist or cannot be understood."""
        unknown = sorted(set(given) - set(cls.__slots__))
        if unknown:
            raise InvalidInput(f"{NAME} has no option {unknown[0]}. It has {', '.join(cls.__slots__)}.")
        db, url = given.get("db"), given.get("url")
        if bool(db) == bool(url):
            raise InvalidInput(f"{NAME} reads a file or an address. Give one of the options db and url.")
        return cls(
            db=Path(db) if db else None,
            url=url or None,
            token=given.get("token"),
            partitions=_number(given, "partitions", 1) or PARTITIONS,
            initial=_number(given, "initial", 0) or 0,
            max_rows=_number(given, "max_rows", 1),
            after=_number(given, "after", 0) or 0,
            through=_number(given, "through", 0),
        )

    def open(self) -> Log:
        """A connection of its own: options travel to Spark's workers, connections cannot."""
        if self.db is not None:
            return LogFile(self.db)
        return LogApi(self.url or "", self.token)


@dataclass(frozen=True, slots=True)
class IdRange(InputPartition):
    """The events beyond `after`, up to and with `through`."""

    after: int
    through: int


class EventSource(DataSource):
    """Register with `spark.dataSource.register(EventSource)`, read with `format("tinyagi_events")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> "BatchReader":  # noqa: ARG002 - it is ours
        return BatchReader(Options.parse(self.options))

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: ARG002, N802 - Spark's name
        return StreamReader(Options.parse(self.options))


class BatchReader(DataSourceReader):
    """The part of the log that the options and the pushed filters leave."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._after = options.after
        self._through = options.through
        self._types: frozenset[str] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep what SQLite can do by itself: bounds of the id, and types by name. The rest goes back to Spark."""
        return [wanted for wanted in filters if not self._keeps(wanted)]

    def partitions(self) -> Sequence[InputPartition]:
        with self._options.open() as log:
            through = log.head() if self._through is None else min(self._through, log.head())
            first = log.first_after(self._after)
        after = self._after if first is None else max(self._after, first - 1)
        return split(after, through, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition, self._types)

    def _keeps(self, wanted: Filter) -> bool:
        match wanted:
            case GreaterThan(("id",), int(bound)):
                self._bound(after=bound)
            case GreaterThanOrEqual(("id",), int(bound)):
                self._bound(after=bound - 1)
            case LessThan(("id",), int(bound)):
                self._bound(through=bound - 1)
            case LessThanOrEqual(("id",), int(bound)):
                self._bound(through=bound)
            case EqualTo(("id",), int(number)):
                self._bound(after=number - 1, through=number)
            case EqualTo(("type",), str(name)):
                self._only({name})
            case In(("type",), names) if all(isinstance(name, str) for name in names):
                self._only(names)
            case _:
                return False
        return True

    def _bound(self, *, after: int = 0, through: int | None = None) -> None:
        self._after = max(self._after, after)
        if through is not None:
            self._through = through if self._through is None else min(self._through, through)

    def _only(self, names: Iterable[str]) -> None:
        wanted = frozenset(names)
        self._types = wanted if self._types is None else self._types & wanted


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The log from a cursor on. An offset is `{"id": n}`: everything up to n was read."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._target: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return {"id": self._options.initial}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadAllAvailable() if self._options.max_rows is None else ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        with self._options.open() as log:
            self._target = log.head()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        after = start["id"]
        with self._options.open() as log:
            head = log.head() if self._target is None else self._target
            if after > head:
                # The head never falls, so the ids of this log mean other events than those that were read.
                raise PipelineError(
                    f"The event log ends at {head}, but {after} was read before: it is another log. "
                    "Use the database that the lake was made from, or begin a new lake."
                )
            return {"id": log.end_of(after, limit.max_rows, head) if isinstance(limit, ReadMaxRows) else head}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return split(start["id"], end["id"], self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition, None)

    def commit(self, end: Offset) -> None:
        """Nothing: a batch counts when the lake's manifest says so."""


def split(after: int, through: int, most: int) -> list[IdRange]:
    """Ranges of about the same number of ids; always one, because Spark takes none for a source without partitions."""
    ids = max(through - after, 0)
    count = max(1, min(most, ids // SMALLEST_PARTITION))
    ends = [after + ids * number // count for number in range(count + 1)]
    return [IdRange(start, end) for start, end in pairwise(ends)]


def _read(options: Options, partition: InputPartition, types: frozenset[str] | None) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, IdRange):
        raise TypeError(f"{NAME} reads ranges of ids, not {partition!r}.")
    schema = to_arrow_schema(SCHEMA)
    with options.open() as log:
        pages = log.pages(partition.after, partition.through, types)
        while True:
            with _uncollected():
                rows = next(pages, None)
                if rows is None:
                    return
                columns = zip(zip(*rows, strict=True), schema, strict=True)
                arrays = [pa.array(values, field.type) for values, field in columns]
                batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
                del rows, columns
            yield batch


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collection, which would look at every row again for cycles that rows do not have: a quarter of
    the time that a page takes."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _number(given: Mapping[str, str], name: str, least: int) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise InvalidInput(f"The option {name} of {NAME} is {text!r}. Use a whole number, {least} or more.")
    return int(text)
