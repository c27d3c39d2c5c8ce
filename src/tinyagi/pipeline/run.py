"""One pipeline run: ingest new events into bronze, bring every other table up to them, write the manifest."""

import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa

from tinyagi.domain.instants import utc_day
from tinyagi.pipeline.delta.commit import Change, commit
from tinyagi.pipeline.delta.optimize import compact, vacuum_daily
from tinyagi.pipeline.delta.snapshot import Snapshot, has_old_types, recreate
from tinyagi.pipeline.errors import LakeChanged
from tinyagi.pipeline.gold_updates import FROM_GOLD, FROM_SILVER, AlertsTable, RecomputedDays
from tinyagi.pipeline.ingest.bronze import BRONZE, BronzeIngest, Redactions
from tinyagi.pipeline.ingest.log_source import LogSource
from tinyagi.pipeline.manifest import LakeManifest, Pin, write_manifest
from tinyagi.pipeline.progress import Summary
from tinyagi.pipeline.silver_updates import (
    AFTER_SILVER,
    FROM_EVENTS,
    AppendedTable,
    DerivedTable,
    FoldedTable,
    NewEvents,
    QuarantineTable,
)
from tinyagi.pipeline.spark.lake_session import ATTEMPTS, LakeSession, WritePlan, now_ms
from tinyagi.pipeline.spark.session_settings import tuned_for_many
from tinyagi.pipeline.tables import catalog
from tinyagi.pipeline.tables.catalog import QUARANTINE, TABLES
from tinyagi.pipeline.tables.schema import arrow_schema
from tinyagi.pipeline.transform.parsed_events import flat, nested, parsed_events

SLICE_EVENTS: Final = 500_000
"""Events per silver update, about: Spark caches one slice while all silver tables read it."""
PARALLEL_TABLES: Final = 2
"""Tables written concurrently: a small one leaves the machine idle between its Spark jobs."""
DERIVED_TABLES: Final = tuple(
    name for name in TABLES if name not in {BRONZE, catalog.PIPELINE_RUNS.name, catalog.ERASURES.name}
)
"""Tables computed from bronze."""
_OLD_STAGE: Final = "_stage"
_RUN_COLUMNS: Final = ("run_id", "kind", "started_at", "ended_at", "from_id", "through_id", "events", "quarantined")

SilverUpdate: TypeAlias = FoldedTable | AppendedTable | DerivedTable | QuarantineTable
GoldUpdate: TypeAlias = RecomputedDays | AlertsTable
Update = TypeVar("Update", SilverUpdate, GoldUpdate)


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
        self._renew_old_tables(summary)
        with self._stage(summary, "ingest"):
            ingest = BronzeIngest(self._session, self._log, self._batch_events, self._redactions)
            summary.events = ingest.run()
            if summary.events:
                summary.rows[BRONZE] = summary.events
        self._catch_up(summary)
        return summary

    def backfill(self) -> Summary:
        """Rebuild every derived table from bronze. Readers see the old ones until all are done."""
        summary = Summary(uuid.uuid4().hex[:12], "backfill", now_ms())
        for name in DERIVED_TABLES:
            snapshot = self._session.open(name)
            commit(snapshot, Change(0, replaced=snapshot.files))
        self._catch_up(summary)
        return summary

    def is_behind(self) -> bool:
        """True when the log has events that bronze lacks."""
        return self._log.head() > self._session.open(BRONZE).through_id

    def compact(self) -> dict[str, int]:
        """Join the small files of every day; return the number of files removed, per table."""
        removed = compact(map(self._session.open, TABLES), all_days=True)
        self._publish(self._session.open(BRONZE))
        return removed

    def _catch_up(self, summary: Summary) -> None:
        """Update each table from its own last event to bronze's; after a kill, the next run does the rest."""
        bronze = self._session.open(BRONZE)
        summary.through_id = through = bronze.through_id
        with self._stage(summary, "silver"):
            for after, last in self._slices(through):
                self._silver(bronze, after, last, summary)
        with self._stage(summary, "gold"):
            self._gold(through, summary)
        known = self._session.lake.manifest()
        if not summary.rows and known is not None and known.through_id >= through:
            return
        with self._stage(summary, "tidy"):
            compact(map(self._session.open, TABLES))
        summary.ended_at = now_ms()
        self._record_run(summary)
        self._session.progress.finishing()
        self._publish(bronze)
        vacuum_daily(self._session.lake)

    def _renew_old_tables(self, summary: Summary) -> None:
        """Tables of an earlier version store other types: start them again. Readers see the old ones until the end."""
        lake = self._session.lake
        old = [name for name in DERIVED_TABLES if has_old_types(lake, name)]
        if old:
            with self._stage(summary, "rebuild"):
                for name in old:
                    recreate(lake, name)
                for name in TABLES:
                    # Earlier versions wrote new files there first.
                    shutil.rmtree(lake.path(name) / _OLD_STAGE, ignore_errors=True)

    def _slices(self, through: int) -> Iterator[tuple[int, int]]:
        """Id ranges from the last event of the table that is furthest behind."""
        names = [update.table.name for update in (*FROM_EVENTS, *AFTER_SILVER)]
        after = min(self._session.open(name).through_id for name in names)
        # Equal lengths: a short slice at the end would cost as much as a full one.
        count = max(1, round((through - after) / self._slice_events))
        while after < through:
            last = after + -(-(through - after) // count)
            yield after, last
            after, count = last, count - 1

    def _silver(self, bronze: Snapshot, after: int, through: int, summary: Summary) -> None:
        session = self._session
        are_few = session.are_few(bronze.reaching("id", after + 1, through))
        parsed = flat(parsed_events(session.read_range(bronze, after, through))).persist()
        events = NewEvents(nested(parsed), through, are_few)

        def changes(update: SilverUpdate, snapshot: Snapshot) -> WritePlan:
            return update.changes(session, snapshot, events)

        try:
            for updates in (FROM_EVENTS, AFTER_SILVER):
                self._update((updates,), changes, through, summary, together=are_few)
        finally:
            parsed.unpersist()
        summary.quarantined = summary.rows.get(QUARANTINE.name, 0)

    def _gold(self, through: int, summary: Summary) -> None:
        session = self._session

        def changes(update: GoldUpdate, snapshot: Snapshot) -> WritePlan:
            return update.changes(session, snapshot, through)

        changed = [
            source.changed_files(session, session.open(update.table.name).through_id)
            for update in FROM_SILVER
            for source in update.sources
        ]
        waves: tuple[tuple[GoldUpdate, ...], ...] = (FROM_SILVER, FROM_GOLD)
        self._update(waves, changes, through, summary, together=session.are_few(*changed))

    def _update(
        self,
        waves: Sequence[Sequence[Update]],
        changes: Callable[[Update, Snapshot], WritePlan],
        through: int,
        summary: Summary,
        *,
        together: bool,
    ) -> None:
        """Update the tables, one wave after another: few changes all together, many table by table."""
        if together:
            self._repeated(waves, changes, through, summary)
            return
        for wave in waves:
            with tuned_for_many(self._session.spark):
                self._in_parallel(
                    {one.table.name: partial(self._repeated, ((one,),), changes, through, summary) for one in wave}
                )

    def _repeated(
        self,
        waves: Sequence[Sequence[Update]],
        changes: Callable[[Update, Snapshot], WritePlan],
        through: int,
        summary: Summary,
    ) -> None:
        """After a conflict, plan again for the tables that are still behind."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._update_group(waves, changes, through, summary)
            except LakeChanged:
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    def _update_group(
        self,
        waves: Sequence[Sequence[Update]],
        changes: Callable[[Update, Snapshot], WritePlan],
        through: int,
        summary: Summary,
    ) -> None:
        session = self._session
        snapshots = {one.table.name: session.open(one.table.name) for wave in waves for one in wave}
        behind = [[one for one in wave if snapshots[one.table.name].through_id < through] for wave in waves]
        updates = {one.table.name: one for wave in behind for one in wave}
        found = session.settle(
            {name: changes(one, snapshots[name]) for name, one in updates.items()}, f"{_names(updates)}: changes"
        )
        for wave in behind:
            plans = {
                one.table.name: one.plan(session, snapshots[one.table.name], found[one.table.name]) for one in wave
            }
            plans = session.settle(plans, f"{_names(plans)}: rows")
            is_small = all(plan.is_small for plan in plans.values())
            with nullcontext() if is_small else tuned_for_many(session.spark):
                self._in_parallel(
                    {name: partial(self._carry_out, snapshots[name], plan, summary) for name, plan in plans.items()}
                )

    def _carry_out(self, snapshot: Snapshot, plan: WritePlan, summary: Summary) -> None:
        name = snapshot.table.name
        started = time.perf_counter()
        done = self._session.carry_out(snapshot, plan)
        summary.seconds[name] = summary.seconds.get(name, 0.0) + time.perf_counter() - started
        if done is not None:
            summary.rows[name] = summary.rows.get(name, 0) + done.rows

    def _in_parallel(self, tasks: Mapping[str, Callable[[], None]]) -> None:
        """Run the tasks, PARALLEL_TABLES at a time; raise the first error once all have ended."""
        if len(tasks) == 1:
            next(iter(tasks.values()))()
            return
        with ThreadPoolExecutor(PARALLEL_TABLES, thread_name_prefix="tinyagi-table") as pool:
            running = [pool.submit(task) for task in tasks.values()]
        for one in running:
            one.result()

    def _record_run(self, summary: Summary) -> None:
        """Add a row about this run to ops.runs, for `pipeline status` and for diagnosis."""
        row = {
            **{name: getattr(summary, name) for name in _RUN_COLUMNS},
            "rows": json.dumps(summary.rows, sort_keys=True),
            "seconds": json.dumps({name: round(took, 3) for name, took in summary.seconds.items()}, sort_keys=True),
            "date": utc_day(summary.ended_at),
        }
        rows = pa.Table.from_pylist([row], arrow_schema(catalog.PIPELINE_RUNS))
        self._session.write(catalog.PIPELINE_RUNS.name, lambda _: WritePlan(rows, summary.through_id))

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


def _names(tables: Mapping[str, object]) -> str:
    return ", ".join(tables)
