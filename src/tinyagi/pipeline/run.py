"""A run of the pipeline: new events into bronze, every other table up to bronze's last event, then the manifest."""

import datetime as dt
import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.delta.commit import Committed
from tinyagi.pipeline.delta.snapshot import Snapshot
from tinyagi.pipeline.facts import believed, facts
from tinyagi.pipeline.frames import spark_schema
from tinyagi.pipeline.ingest import BRONZE, Ingest, Log, Redactions
from tinyagi.pipeline.manifest import Manifest, Pin, write_manifest
from tinyagi.pipeline.plan import FROM_EVENTS, FROM_GOLD, FROM_SILVER, HANDOFFS
from tinyagi.pipeline.progress import Summary
from tinyagi.pipeline.steps import changed_rows
from tinyagi.pipeline.tables import ops, silver
from tinyagi.pipeline.tables.bronze import QUARANTINE
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tidy import compact, vacuum_now_and_then
from tinyagi.pipeline.verify import quarantined
from tinyagi.pipeline.workshop import Plan, Workshop, now_ms

SLICE_EVENTS: Final = 500_000
"""About so many events silver takes in at once: what Spark has to keep while all its tables read them."""
AT_ONCE: Final = 2
"""Tables that are written at the same time: small ones leave the machine idle between Spark's jobs."""
REBUILT: Final = tuple(name for name in TABLES if name not in {BRONZE, ops.RUNS.name, ops.ERASURES.name})
"""Tables that are a function of bronze."""
_PLAIN: Final = ("run_id", "kind", "started_at", "ended_at", "from_id", "through_id", "events", "quarantined")


class Pipeline:
    """The pipeline on one lake, opened for writing."""

    def __init__(
        self,
        shop: Workshop,
        log: Log,
        *,
        batch_events: int = 500_000,
        slice_events: int = SLICE_EVENTS,
        redactions: Redactions = lambda _: (),
    ) -> None:
        self._shop = shop
        self._log = log
        self._redactions = redactions
        self._batch_events = batch_events
        self._slice_events = slice_events

    def run(self, kind: str = "run") -> Summary:
        """Everything that is new. Killed at any point, the next run goes on from there."""
        summary = Summary(uuid.uuid4().hex[:12], kind, now_ms(), from_id=self._shop.open(BRONZE).through_id)
        with self._stage(summary, "ingest"):
            summary.events = self._ingest()
            if summary.events:
                summary.rows[BRONZE] = summary.events
        self._catch_up(summary)
        return summary

    def backfill(self) -> Summary:
        """Make every table but bronze afresh from it. Readers see the old ones until all are done."""
        summary = Summary(uuid.uuid4().hex[:12], "backfill", now_ms())
        for name in REBUILT:
            self._shop.write(name, lambda snapshot: Plan(None, 0, snapshot.files))
        self._catch_up(summary)
        return summary

    def is_behind(self) -> bool:
        """True when the log has events that bronze has not."""
        return self._log.head() > self._shop.open(BRONZE).through_id

    def compact(self) -> dict[str, int]:
        """Join the small files of every day; returns files that went, per table."""
        gone = compact(self._shop.lake, all_days=True)
        self._publish(self._shop.open(BRONZE))
        return gone

    def _ingest(self) -> int:
        ingest = Ingest(self._shop, self._log, batch_events=self._batch_events, redactions=self._redactions)
        return ingest.take_all()

    def _catch_up(self, summary: Summary) -> None:
        """Bring each table from its own last event to bronze's; a kill in between only leaves something to catch up."""
        bronze = self._shop.open(BRONZE)
        summary.through_id = through = bronze.through_id
        with self._stage(summary, "silver"):
            for after, upto in self._slices(through):
                self._silver(bronze, after, upto, summary)
        with self._stage(summary, "gold"):
            for steps in (FROM_SILVER, FROM_GOLD):
                self._at_once({step.table.name: partial(step.bring, self._shop, through) for step in steps}, summary)
        known = self._shop.lake.manifest()
        if not summary.rows and known is not None and known.through_id >= through:
            return
        with self._stage(summary, "tidy"):
            compact(self._shop.lake)
        summary.ended_at = now_ms()
        self._remember(summary)
        self._shop.progress.finishing()
        self._publish(bronze)
        vacuum_now_and_then(self._shop.lake)

    def _slices(self, through: int) -> Iterator[tuple[int, int]]:
        """Stretches of ids from the last event of the table that is furthest behind."""
        names = [step.table.name for step in FROM_EVENTS] + [HANDOFFS.table.name, QUARANTINE.name]
        after = min(self._shop.open(name).through_id for name in names)
        # Of equal length: a short one at the end costs as much as any.
        count = max(1, round((through - after) / self._slice_events))
        while after < through:
            upto = after + -(-(through - after) // count)
            yield after, upto
            after, count = upto, count - 1

    def _silver(self, bronze: Snapshot, after: int, upto: int, summary: Summary) -> None:
        shop = self._shop
        events = shop.read(bronze, bronze.reaching("id", after + 1, upto))
        read = facts(events.where((F.col("id") > after) & (F.col("id") <= upto))).persist()
        try:
            good = believed(read)
            self._at_once({step.table.name: partial(step.bring, shop, good, upto) for step in FROM_EVENTS}, summary)
            self._at_once(
                {
                    HANDOFFS.table.name: partial(HANDOFFS.bring, shop, upto),
                    QUARANTINE.name: partial(self._quarantine, read, upto),
                },
                summary,
            )
        finally:
            read.unpersist()
        summary.quarantined = summary.rows.get(QUARANTINE.name, 0)

    def _quarantine(self, read: DataFrame, upto: int) -> Committed | None:
        def plan(snapshot: Snapshot) -> Plan | None:
            after = snapshot.through_id
            if after >= upto:
                return None
            ended = changed_rows(self._shop, silver.RUNS.name, after).where(
                F.col("end_event_id").between(after + 1, upto)
            )
            return Plan(quarantined(read.where(F.col("id") > after), ended), upto)

        return self._shop.write(QUARANTINE.name, plan)

    def _at_once(self, tasks: Mapping[str, Callable[[], Committed | None]], summary: Summary) -> None:
        """All of them, a few at the same time; the first error is raised when all have ended."""

        def timed(name: str) -> None:
            began = time.perf_counter()
            done = tasks[name]()
            summary.seconds[name] = summary.seconds.get(name, 0.0) + time.perf_counter() - began
            if done is not None:
                summary.rows[name] = summary.rows.get(name, 0) + done.rows

        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="tinyagi-table") as pool:
            running = [pool.submit(timed, name) for name in tasks]
        for one in running:
            one.result()

    def _remember(self, summary: Summary) -> None:
        """A line about this run, for `pipeline status` and for whoever wonders later."""
        line = {
            **{name: getattr(summary, name) for name in _PLAIN},
            "rows": json.dumps(summary.rows, sort_keys=True),
            "seconds": json.dumps({name: round(took, 3) for name, took in summary.seconds.items()}, sort_keys=True),
            "date": dt.datetime.fromtimestamp(summary.ended_at / 1000, dt.UTC).date(),
        }
        frame = self._shop.spark.createDataFrame([line], spark_schema(ops.RUNS))
        self._shop.write(ops.RUNS.name, lambda _: Plan(frame, summary.through_id))

    def _publish(self, bronze: Snapshot) -> None:
        opened = {name: self._shop.open(name) for name in TABLES}
        pins = {name: Pin(one.version, one.through_id) for name, one in opened.items()}
        floor = min((int(file.statistics.minimum["id"]) for file in bronze.files), default=0)
        write_manifest(self._shop.lake.manifest_file, Manifest(floor, bronze.through_id, now_ms(), pins))

    @contextmanager
    def _stage(self, summary: Summary, name: str) -> Iterator[None]:
        self._shop.progress.began(name)
        began = time.perf_counter()
        yield
        summary.seconds[name] = time.perf_counter() - began
