"""One pipeline run: ingest new events into bronze, bring every other table up to them, write the manifest."""

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tinyagi.domain.instants import utc_day
from tinyagi.pipeline.delta.commit import Committed
from tinyagi.pipeline.delta.optimize import compact, vacuum_daily
from tinyagi.pipeline.delta.snapshot import Snapshot
from tinyagi.pipeline.ingest.bronze import BRONZE, BronzeIngest, Redactions
from tinyagi.pipeline.ingest.log_source import LogSource
from tinyagi.pipeline.lake import LakeManifest, Pin, write_manifest
from tinyagi.pipeline.progress import Summary
from tinyagi.pipeline.spark.lake_session import LakeSession, WritePlan, now_ms
from tinyagi.pipeline.table_updates import FROM_EVENTS, FROM_GOLD, FROM_SILVER, HANDOFFS_UPDATE, changed_rows
from tinyagi.pipeline.tables import catalog, silver
from tinyagi.pipeline.tables.catalog import QUARANTINE, TABLES
from tinyagi.pipeline.transform.columns import spark_schema
from tinyagi.pipeline.transform.parsed_events import parsed_events, quarantined, valid_events

SLICE_EVENTS: Final = 500_000
"""Events per silver update, about: Spark caches one slice while all silver tables read it."""
PARALLEL_TABLES: Final = 2
"""Tables written concurrently: a small one leaves the machine idle between its Spark jobs."""
DERIVED_TABLES: Final = tuple(
    name for name in TABLES if name not in {BRONZE, catalog.PIPELINE_RUNS.name, catalog.ERASURES.name}
)
"""Tables computed from bronze."""
_RUN_COLUMNS: Final = ("run_id", "kind", "started_at", "ended_at", "from_id", "through_id", "events", "quarantined")


class Pipeline:
    """The pipeline on one lake that is open for writing."""

    def __init__(
        self,
        session: LakeSession,
        log: LogSource,
        *,
        batch_events: int = 500_000,
        slice_events: int = SLICE_EVENTS,
        redactions: Redactions = lambda _: (),
    ) -> None:
        self._session = session
        self._log = log
        self._redactions = redactions
        self._batch_events = batch_events
        self._slice_events = slice_events

    def run(self, kind: str = "run") -> Summary:
        """Process all new events. After a kill at any point, the next run continues from there."""
        summary = Summary(uuid.uuid4().hex[:12], kind, now_ms(), from_id=self._session.open(BRONZE).through_id)
        with self._stage(summary, "ingest"):
            summary.events = self._ingest()
            if summary.events:
                summary.rows[BRONZE] = summary.events
        self._catch_up(summary)
        return summary

    def backfill(self) -> Summary:
        """Rebuild every derived table from bronze. Readers see the old ones until all are done."""
        summary = Summary(uuid.uuid4().hex[:12], "backfill", now_ms())
        for name in DERIVED_TABLES:
            self._session.write(name, lambda snapshot: WritePlan(None, 0, snapshot.files))
        self._catch_up(summary)
        return summary

    def is_behind(self) -> bool:
        """True when the log has events that bronze lacks."""
        return self._log.head() > self._session.open(BRONZE).through_id

    def compact(self) -> dict[str, int]:
        """Join the small files of every day; return the number of files removed, per table."""
        removed = compact(self._session.lake, all_days=True)
        self._publish(self._session.open(BRONZE))
        return removed

    def _ingest(self) -> int:
        ingest = BronzeIngest(self._session, self._log, batch_events=self._batch_events, redactions=self._redactions)
        return ingest.run()

    def _catch_up(self, summary: Summary) -> None:
        """Update each table from its own last event to bronze's; after a kill, the next run does the rest."""
        bronze = self._session.open(BRONZE)
        summary.through_id = through = bronze.through_id
        with self._stage(summary, "silver"):
            for after, last in self._slices(through):
                self._silver(bronze, after, last, summary)
        with self._stage(summary, "gold"):
            for steps in (FROM_SILVER, FROM_GOLD):
                self._in_parallel(
                    {step.table.name: partial(step.update, self._session, through) for step in steps}, summary
                )
        known = self._session.lake.manifest()
        if not summary.rows and known is not None and known.through_id >= through:
            return
        with self._stage(summary, "tidy"):
            compact(self._session.lake)
        summary.ended_at = now_ms()
        self._record_run(summary)
        self._session.progress.finishing()
        self._publish(bronze)
        vacuum_daily(self._session.lake)

    def _slices(self, through: int) -> Iterator[tuple[int, int]]:
        """Id ranges from the last event of the table that is furthest behind."""
        names = [step.table.name for step in FROM_EVENTS] + [HANDOFFS_UPDATE.table.name, QUARANTINE.name]
        after = min(self._session.open(name).through_id for name in names)
        # Equal lengths: a short slice at the end would cost as much as a full one.
        count = max(1, round((through - after) / self._slice_events))
        while after < through:
            last = after + -(-(through - after) // count)
            yield after, last
            after, count = last, count - 1

    def _silver(self, bronze: Snapshot, after: int, through: int, summary: Summary) -> None:
        session = self._session
        events = session.read(bronze, bronze.reaching("id", after + 1, through))
        parsed = parsed_events(events.where((F.col("id") > after) & (F.col("id") <= through))).persist()
        try:
            valid = valid_events(parsed)
            self._in_parallel(
                {step.table.name: partial(step.update, session, valid, through) for step in FROM_EVENTS}, summary
            )
            self._in_parallel(
                {
                    HANDOFFS_UPDATE.table.name: partial(HANDOFFS_UPDATE.update, session, through),
                    QUARANTINE.name: partial(self._quarantine, parsed, through),
                },
                summary,
            )
        finally:
            parsed.unpersist()
        summary.quarantined = summary.rows.get(QUARANTINE.name, 0)

    def _quarantine(self, parsed: DataFrame, through: int) -> Committed | None:
        def plan(snapshot: Snapshot) -> WritePlan | None:
            after = snapshot.through_id
            if after >= through:
                return None
            ended = changed_rows(self._session, silver.RUNS.name, after).where(
                F.col("end_event_id").between(after + 1, through)
            )
            return WritePlan(quarantined(parsed.where(F.col("id") > after), ended), through)

        return self._session.write(QUARANTINE.name, plan)

    def _in_parallel(self, tasks: Mapping[str, Callable[[], Committed | None]], summary: Summary) -> None:
        """Run the updates, PARALLEL_TABLES at a time; raise the first error once all have ended."""

        def timed(name: str) -> None:
            started = time.perf_counter()
            done = tasks[name]()
            summary.seconds[name] = summary.seconds.get(name, 0.0) + time.perf_counter() - started
            if done is not None:
                summary.rows[name] = summary.rows.get(name, 0) + done.rows

        with ThreadPoolExecutor(PARALLEL_TABLES, thread_name_prefix="tinyagi-table") as pool:
            running = [pool.submit(timed, name) for name in tasks]
        for update in running:
            update.result()

    def _record_run(self, summary: Summary) -> None:
        """Add a row about this run to ops.runs, for `pipeline status` and for diagnosis."""
        row = {
            **{name: getattr(summary, name) for name in _RUN_COLUMNS},
            "rows": json.dumps(summary.rows, sort_keys=True),
            "seconds": json.dumps({name: round(took, 3) for name, took in summary.seconds.items()}, sort_keys=True),
            "date": utc_day(summary.ended_at),
        }
        frame = self._session.spark.createDataFrame([row], spark_schema(catalog.PIPELINE_RUNS))
        self._session.write(catalog.PIPELINE_RUNS.name, lambda _: WritePlan(frame, summary.through_id))

    def _publish(self, bronze: Snapshot) -> None:
        snapshots = {name: self._session.open(name) for name in TABLES}
        pins = {name: Pin(snapshot.version, snapshot.through_id) for name, snapshot in snapshots.items()}
        floor = min((int(file.statistics.minimum["id"]) for file in bronze.files), default=0)
        write_manifest(self._session.lake.manifest_file, LakeManifest(floor, bronze.through_id, now_ms(), pins))

    @contextmanager
    def _stage(self, summary: Summary, name: str) -> Iterator[None]:
        self._session.progress.began(name)
        started = time.perf_counter()
        yield
        summary.seconds[name] = time.perf_counter() - started
