"""Bronze: every event of the log, once. What it keeps as its place is the event id, not Spark's checkpoint."""

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows
from pyspark.sql.streaming.query import StreamingQuery

from tinyagi.domain.errors import TinyAGIError
from tinyagi.pipeline.clock import arrival_day
from tinyagi.pipeline.delta.commit import Staged
from tinyagi.pipeline.delta.snapshot import Snapshot
from tinyagi.pipeline.delta.sweep import CHECKPOINTS
from tinyagi.pipeline.errors import LakeBroken, PipelineError
from tinyagi.pipeline.forget.redaction import redact
from tinyagi.pipeline.source import NAME, EventSource, Options
from tinyagi.pipeline.tables.bronze import EVENTS
from tinyagi.pipeline.workshop import Inspected, Plan, Workshop, now_ms
from tinyagi.store.erasing import Redaction

BRONZE: Final = EVENTS.name


Redactions = Callable[[int], Sequence[Redaction]]
"""Erasures that events beyond this one may still be covered by."""


@dataclass(frozen=True, slots=True)
class Log:
    """Where events come from: the options of the source `tinyagi_events`."""

    options: Mapping[str, str]

    def tally(self, after: int, through: int) -> tuple[int, int]:
        """How many events the log holds between two ids, and the sum of their ids."""
        with Options.parse(self.options).open() as log:
            told = log.tally(after, through)
        return told.count, told.id_sum

    def head(self) -> int:
        """The newest id that was ever given."""
        with Options.parse(self.options).open() as log:
            return log.head()

    def has(self, number: int, kind: str, created_at: int) -> bool:
        """True unless the log holds another event under this id, or has not come so far; what is pruned is believed."""
        with Options.parse(self.options).open() as log:
            if number > log.head():
                return False
            page = next(log.pages(number - 1, number), None)
        return page is None or (page[0][1], page[0][8]) == (kind, created_at)

    def first(self) -> int | None:
        """The oldest id that is still there."""
        with Options.parse(self.options).open() as log:
            return log.first_after(0)


class Ingest:
    """Brings new events into bronze.events, batch by batch."""

    def __init__(self, shop: Workshop, log: Log, *, batch_events: int, redactions: Redactions = lambda _: ()) -> None:
        self._shop = shop
        self._log = log
        self._redactions = redactions
        self._batch_events = batch_events
        self._failure: TinyAGIError | None = None
        self._expected = 0
        self.arrived = 0

    def take_all(self) -> int:
        """Everything that is in the log now; returns how many events arrived."""
        bronze = self._shop.open(BRONZE)
        self._check_origin(bronze)
        with self._streaming(bronze.through_id) as query:
            self._watch(query)
        return self.arrived

    def _check_origin(self, bronze: Snapshot) -> None:
        """An id names an event within one log. A database that was restored from an older copy gives its ids again."""
        last = bronze.through_id
        files = bronze.locations(bronze.reaching("id", last, last))
        if not files:
            return
        rows = ds.dataset(files, format="parquet").to_table(["type", "created_at"], filter=ds.field("id") == last)
        if not all(self._log.has(last, row["type"], row["created_at"]) for row in rows.to_pylist()):
            folder = self._shop.lake.folder
            raise PipelineError(
                f"The lake's last event, {last}, is not in this database or is another one there: it was restored from"
                " a copy that is older than the lake, or the lake is not its own. Restore a backup that was made with"
                f" --lake, or move the lake away (mv '{folder}' '{folder}.newer') and run it again: it makes a new lake"
                " from this database. Nothing was written."
            )

    @contextmanager
    def _streaming(self, start: int) -> Iterator[StreamingQuery]:
        self._expected = self._log.head() - start
        # A checkpoint lives as long as its query: bronze itself says where the next one begins, so a checkpoint that
        # is lost, old or of another lake can neither skip nor repeat an event.
        checkpoint = self._shop.lake.folder / CHECKPOINTS / uuid.uuid4().hex
        self._shop.spark.dataSource.register(EventSource)
        reading = self._shop.spark.readStream.format(NAME).options(**self._log.options)
        stream = reading.option("initial", start).option("max_rows", self._batch_events).load()
        writing = stream.writeStream.foreachBatch(self._take).option("checkpointLocation", str(checkpoint))
        query = writing.trigger(availableNow=True).start()
        try:
            yield query
        finally:
            query.stop()
            shutil.rmtree(checkpoint, ignore_errors=True)

    def _watch(self, query: StreamingQuery) -> None:
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if self._failure is not None:
                raise self._failure from error
            raise PipelineError(f"Events could not be read: {error.getMessage()}") from error

    def _take(self, batch: DataFrame, _: int) -> None:
        """One micro-batch, in Spark's thread. What is in bronze already is left out, whatever Spark repeats."""
        try:
            done = self._shop.write(BRONZE, lambda snapshot: self._plan(snapshot, batch))
        except TinyAGIError as error:
            self._failure = error
            raise
        if done is not None:
            self.arrived += done.rows
            self._shop.progress.arrived(self.arrived, max(self.arrived, self._expected))

    def _plan(self, snapshot: Snapshot, batch: DataFrame) -> Plan:
        after, now = snapshot.through_id, now_ms()
        fresh = redact(batch.where(F.col("id") > after), self._redactions(after)).withColumns(
            {"batch": F.lit(now).cast("bigint"), "date": arrival_day(F.col("created_at"), now)}
        )
        # Each task reads a stretch of ids, which lie in few days: it writes as it reads, without a shuffle.
        return Plan(fresh, after, arranged=False, inspect=lambda staged: self._inspect(staged, after))

    def _inspect(self, staged: Staged, after: int) -> Inspected | None:
        """Ids may have gaps, so completeness is: as many events as the log has in between, and the same sum of ids."""
        files = [str(staged.folder / file) for file in staged.files]
        ids = ds.dataset(files, format="parquet").to_table(columns=["id"]).column("id") if files else []
        if not len(ids):
            return None
        through = pc.max(ids).as_py()
        here = (len(ids), pc.sum(ids).as_py())
        there = self._log.tally(after, through)
        if here != there:
            raise LakeBroken(
                f"The log has {there[0]} events after {after} up to {through}, but {here[0]} arrived. Nothing was"
                " written; run it again."
            )
        return Inspected(through, {"fromId": after, "throughId": through, "events": here[0], "idSum": here[1]})
