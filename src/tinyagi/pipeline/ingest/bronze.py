"""Ingest: every event of the log goes into bronze.events once, redacted where an erasure covers it.

The watermark is the last event id in bronze, not Spark's checkpoint.
"""

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tinyagi.domain.erasure import Redaction, redact_event
from tinyagi.domain.errors import TinyAGIError
from tinyagi.pipeline.delta.commit import CHECKPOINTS, Staged
from tinyagi.pipeline.delta.snapshot import Snapshot
from tinyagi.pipeline.errors import LakeBroken, PipelineError
from tinyagi.pipeline.ingest.log_source import SOURCE_NAME, LogSource
from tinyagi.pipeline.ingest.spark_source import EventSource
from tinyagi.pipeline.spark.lake_session import Inspected, LakeSession, WritePlan, now_ms
from tinyagi.pipeline.tables.catalog import EVENTS
from tinyagi.pipeline.transform.columns import arrival_day

BRONZE: Final = EVENTS.name

Redactions = Callable[[int], Sequence[Redaction]]
"""The erasures that may cover events after the given id."""

_REDACTION_COLUMNS: Final = ("id", "type", "message_id", "conversation_id", "agent", "payload")


class BronzeIngest:
    """Brings new events into bronze.events, batch by batch."""

    def __init__(
        self, session: LakeSession, log: LogSource, *, batch_events: int, redactions: Redactions = lambda _: ()
    ) -> None:
        self._session = session
        self._log = log
        self._redactions = redactions
        self._batch_events = batch_events
        self._failure: TinyAGIError | None = None
        self._expected = 0
        self.arrived = 0

    def run(self) -> int:
        """Ingest every event that is in the log now; return how many arrived."""
        bronze = self._session.open(BRONZE)
        self._check_origin(bronze)
        with self._streaming(bronze.through_id) as query:
            self._await(query)
        return self.arrived

    def _check_origin(self, bronze: Snapshot) -> None:
        """Raise PipelineError if the lake belongs to another log: a database restored from an older copy reuses ids."""
        last = bronze.through_id
        files = bronze.locations(bronze.reaching("id", last, last))
        if not files:
            return
        rows = ds.dataset(files, format="parquet").to_table(["type", "created_at"], filter=ds.field("id") == last)
        if not all(self._log.has(last, row["type"], row["created_at"]) for row in rows.to_pylist()):
            folder = self._session.lake.folder
            raise PipelineError(
                f"The lake's last event, {last}, is missing or different in this database: the database was restored"
                " from a copy older than the lake, or the lake belongs to another home. Restore a backup made with"
                f" --lake, or move the lake away (mv '{folder}' '{folder}.newer') and run the pipeline again to build"
                " a new lake. Nothing was written."
            )

    @contextmanager
    def _streaming(self, start: int) -> Iterator[StreamingQuery]:
        self._expected = self._log.head() - start
        # A checkpoint lives as long as its query. Bronze holds the position of the next one, so a lost, old or foreign
        # checkpoint can neither skip nor repeat an event.
        checkpoint = self._session.lake.folder / CHECKPOINTS / uuid.uuid4().hex
        self._session.spark.dataSource.register(EventSource)
        reading = self._session.spark.readStream.format(SOURCE_NAME).options(**self._log.options)
        stream = reading.option("initial", start).option("max_rows", self._batch_events).load()
        writing = stream.writeStream.foreachBatch(self._write_batch).option("checkpointLocation", str(checkpoint))
        query = writing.trigger(availableNow=True).start()
        try:
            yield query
        finally:
            query.stop()
            shutil.rmtree(checkpoint, ignore_errors=True)

    def _await(self, query: StreamingQuery) -> None:
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if self._failure is not None:
                raise self._failure from error
            raise PipelineError(f"Cannot read the event log: {error.getMessage()}") from error

    def _write_batch(self, batch: DataFrame, _: int) -> None:
        """Write one micro-batch, in Spark's thread. Skip events that bronze already has: Spark may repeat a batch."""
        try:
            done = self._session.write(BRONZE, lambda snapshot: self._plan(snapshot, batch))
        except TinyAGIError as error:
            self._failure = error
            raise
        if done is not None:
            self.arrived += done.rows
            self._session.progress.arrived(self.arrived, max(self.arrived, self._expected))

    def _plan(self, snapshot: Snapshot, batch: DataFrame) -> WritePlan:
        after, now = snapshot.through_id, now_ms()
        fresh = redact(batch.where(F.col("id") > after), self._redactions(after)).withColumns(
            {"batch": F.lit(now).cast("bigint"), "date": arrival_day(F.col("created_at"), now)}
        )
        # Each task reads one id range, which spans few days, so it writes as it reads, without a shuffle.
        return WritePlan(fresh, after, sort_by_day=False, inspect=lambda staged: self._inspect(staged, after))

    def _inspect(self, staged: Staged, after: int) -> Inspected | None:
        """Check completeness against the log by event count and id sum, because ids may have gaps."""
        files = [str(staged.folder / file) for file in staged.files]
        ids = ds.dataset(files, format="parquet").to_table(columns=["id"]).column("id") if files else []
        if not len(ids):
            return None
        through = pc.max(ids).as_py()
        arrived = (len(ids), pc.sum(ids).as_py())
        expected = self._log.tally(after, through)
        if arrived != expected:
            raise LakeBroken(
                f"The log has {expected[0]} events after {after} up to {through}, but {arrived[0]} arrived. Nothing was"
                " written. Run the pipeline again."
            )
        return Inspected(through, {"fromId": after, "throughId": through, "events": arrived[0], "idSum": arrived[1]})


def redact(events: DataFrame, redactions: Sequence[Redaction]) -> DataFrame:
    """Redact the payloads of events that an erasure covers; without erasures, return the frame unchanged.

    The function that redacts the database's log does it in Python: payloads are JSON within JSON in many shapes, which
    column functions handle badly, and each event passes here only once.
    """
    if not redactions:
        return events

    def erase(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in _REDACTION_COLUMNS)
            payloads = [redact_event(redactions, *row) for row in zip(*columns, strict=True)]
            place = batch.schema.get_field_index("payload")
            yield batch.set_column(place, batch.schema.field(place), pa.array(payloads, pa.string()))

    return events.mapInArrow(erase, events.schema)
