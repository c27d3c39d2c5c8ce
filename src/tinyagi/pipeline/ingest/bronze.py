"""Ingest: every event of the log goes into bronze.events once, redacted where an erasure covers it.

The last event id in bronze is the position in the log; nothing else remembers it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from tinyagi.domain.erasure import Redaction, redact_event
from tinyagi.pipeline.delta.parquet_files import WrittenFile
from tinyagi.pipeline.delta.snapshot import Snapshot
from tinyagi.pipeline.errors import LakeBroken, PipelineError
from tinyagi.pipeline.ingest.log_source import LogSource, Options
from tinyagi.pipeline.ingest.spark_source import SCHEMA, IdRange, ReadRanges, read_range, split
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.spark.lake_session import FEW_BYTES, Inspected, LakeSession, WritePlan, now_ms
from tinyagi.pipeline.tables.catalog import EVENTS
from tinyagi.pipeline.transform.columns import arrival_day
from tinyagi.pipeline.transform.rows import ArrowFunction, Rows, apply, as_frame

BRONZE: Final = EVENTS.name

Redactions = Callable[[int], Sequence[Redaction]]
"""The erasures that may cover events after the given id."""

_REDACTION_COLUMNS: Final = ("id", "type", "message_id", "conversation_id", "agent", "payload")


@dataclass(frozen=True, slots=True)
class BronzeIngest:
    """Brings new events into bronze.events, batch by batch."""

    session: LakeSession
    log: LogSource
    batch_events: int
    redactions: Redactions = lambda _: ()

    def run(self) -> int:
        """Ingest every event that is in the log now; return how many arrived."""
        session = self.session
        bronze = session.open(BRONZE)
        check_origin(session.lake, bronze, self.log)
        after, head = bronze.through_id, self.log.head()
        expected, arrived = head - after, 0
        while after < head:
            through = self.log.end_of(after, self.batch_events, head)
            done = session.write(BRONZE, partial(self._plan, through))
            after = through
            if done is not None:
                arrived += done.rows
                session.progress.arrived(arrived, max(arrived, expected))
        return arrived

    def _plan(self, through: int, snapshot: Snapshot) -> WritePlan | None:
        after, now = snapshot.through_id, now_ms()
        if after >= through:
            return None
        read = self._read(after, through)
        redactions = self.redactions(after)
        if redactions:
            read = apply(read, redact(redactions), SCHEMA)
        rows = as_frame(self.session.spark, read).withColumns(
            {"batch": F.lit(now).cast("bigint"), "date": arrival_day(F.col("created_at"), now)}
        )
        # Each task reads one id range, which spans few days, so it writes as it reads, without a shuffle.
        plan = WritePlan(
            rows,
            after,
            is_small=isinstance(read, pa.Table),
            sort_by_day=False,
            inspect=partial(self._inspect, after),
        )
        return self.session.settle({BRONZE: plan}, f"{BRONZE}: new events")[BRONZE]

    def _read(self, after: int, through: int) -> Rows:
        """Few events are read here, many by tasks."""
        options = Options.parse(self.log.options)
        if through - after < self.session.few_rows:
            batches, size = [], 0
            for batch in read_range(options, IdRange(after, through)):
                batches.append(batch)
                size += batch.nbytes
                if size >= FEW_BYTES:
                    break
            else:
                return pa.Table.from_batches(batches, to_arrow_schema(SCHEMA))
        ranges = split(after, through, options.partitions)
        numbers = self.session.spark.range(0, len(ranges), 1, len(ranges))
        return numbers.mapInArrow(ReadRanges(options, ranges), SCHEMA)

    def _inspect(self, after: int, files: Sequence[WrittenFile]) -> Inspected | None:
        """Check completeness against the log by event count and id sum, because ids may have gaps."""
        if not files:
            return None
        through = max(file.last_id for file in files)
        arrived = (sum(file.rows for file in files), sum(file.id_sum for file in files))
        expected = self.log.tally(after, through)
        if arrived != expected:
            raise LakeBroken(
                f"The log has {expected[0]} events after {after} up to {through}, but {arrived[0]} arrived. Nothing was"
                " written. Run the pipeline again."
            )
        return Inspected(through, {"fromId": after, "throughId": through, "events": arrived[0], "idSum": arrived[1]})


def redact(redactions: Sequence[Redaction]) -> ArrowFunction:
    """Redacts the payloads of events that an erasure covers.

    The function that redacts the database's log does it in Python: payloads are JSON within JSON in many shapes, which
    column functions handle badly, and each event passes here only once.
    """

    # Nested, so that Spark sends it by value: tasks must not import this module and with it Delta.
    def erase(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in _REDACTION_COLUMNS)
            payloads = [redact_event(redactions, *row) for row in zip(*columns, strict=True)]
            place = batch.schema.get_field_index("payload")
            yield batch.set_column(place, batch.schema.field(place), pa.array(payloads, pa.string()))

    return erase


def check_origin(lake: Lake, bronze: Snapshot, log: LogSource) -> None:
    """Raise PipelineError if the lake belongs to another log: a database restored from an older copy reuses ids."""
    last = bronze.through_id
    files = bronze.reaching("id", last, last)
    rows = bronze.dataset(files).to_table(["type", "created_at"], filter=pc.field("id") == last)
    if not all(log.has(last, row["type"], row["created_at"]) for row in rows.to_pylist()):
        raise PipelineError(
            f"The lake's last event, {last}, is missing or different in this database: the database was restored"
            " from a copy older than the lake, or the lake belongs to another home. Restore a backup made with"
            f" --lake, or move the lake away (mv '{lake.folder}' '{lake.folder}.newer') and run the pipeline again to"
            " build a new lake. Nothing was written."
        )
