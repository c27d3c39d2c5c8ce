"""The event log as a Spark data source, `tinyagi_events`: in batches by id range, or as a stream by cursor.

The stream acknowledges nothing: the lake's manifest records what is archived, not Spark's checkpoints.
"""

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

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

from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.ingest.log_source import SOURCE_NAME, Options

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
SMALLEST_PARTITION: Final = 5_000
"""A task with fewer ids costs more than it saves."""

Offset = dict[str, int]


@dataclass(frozen=True, slots=True)
class IdRange(InputPartition):
    """The events after `after`, up to and including `through`."""

    after: int
    through: int


class EventSource(DataSource):
    """Register with `spark.dataSource.register(EventSource)`, read with `format("tinyagi_events")`."""

    @classmethod
    def name(cls) -> str:
        return SOURCE_NAME

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> "BatchReader":  # noqa: ARG002 - the schema is fixed
        return BatchReader(Options.parse(self.options))

    def streamReader(self, schema: StructType) -> "StreamReader":  # noqa: ARG002, N802 - Spark's name
        return StreamReader(Options.parse(self.options))


class BatchReader(DataSourceReader):
    """The part of the log that the options and the pushed filters select."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._after = options.after
        self._through = options.through
        self._types: frozenset[str] | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take the filters that SQLite can apply: bounds of the id, and types by name. Return the rest to Spark."""
        return [wanted for wanted in filters if not self._takes(wanted)]

    def partitions(self) -> Sequence[InputPartition]:
        with self._options.open() as log:
            through = log.head() if self._through is None else min(self._through, log.head())
            first = log.first_after(self._after)
        after = self._after if first is None else max(self._after, first - 1)
        return split(after, through, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition, self._types)

    def _takes(self, wanted: Filter) -> bool:
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
    """The log from a cursor on. The offset `{"id": n}` means that everything up to n is read."""

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
                # The head never falls, so this is a different log with its own ids.
                raise PipelineError(
                    f"The event log ends at {head}, but the lake has read up to {after}: this is a different log. "
                    "Use the database that the lake was built from, or start a new lake."
                )
            return {"id": log.end_of(after, limit.max_rows, head) if isinstance(limit, ReadMaxRows) else head}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        return split(start["id"], end["id"], self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, partition, None)

    def commit(self, end: Offset) -> None:
        """Do nothing: the lake's manifest decides which batches count."""


def split(after: int, through: int, most: int) -> list[IdRange]:
    """Split into ranges of about equal length; always at least one, because Spark requires a partition."""
    ids = max(through - after, 0)
    count = max(1, min(most, ids // SMALLEST_PARTITION))
    ends = [after + ids * number // count for number in range(count + 1)]
    return [IdRange(start, end) for start, end in pairwise(ends)]


@dataclass(frozen=True, slots=True)
class ReadRanges:
    """For `mapInArrow` on a frame of numbers: each number is the index of one of the ranges."""

    options: Options
    ranges: Sequence[IdRange]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_range(self.options, self.ranges[number])


def _read(options: Options, partition: InputPartition, types: frozenset[str] | None) -> Iterator[pa.RecordBatch]:
    if not isinstance(partition, IdRange):
        raise TypeError(f"{SOURCE_NAME} reads ranges of ids, not {partition!r}.")
    return read_range(options, partition, types)


def read_range(options: Options, partition: IdRange, types: frozenset[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The events of a range, in batches of a page."""
    schema = to_arrow_schema(SCHEMA)
    with options.open() as log:
        pages = log.pages(partition.after, partition.through, types)
        while True:
            with _without_garbage_collection():
                rows = next(pages, None)
                if rows is None:
                    return
                columns = zip(zip(*rows, strict=True), schema, strict=True)
                arrays = [pa.array(values, field.type) for values, field in columns]
                batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
                del rows, columns
            yield batch


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Pause garbage collection: scanning the rows for cycles, of which they have none, takes a quarter of the time of a
    page."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
