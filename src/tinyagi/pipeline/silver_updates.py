"""Updates of silver: one class per kind of table, and the list of all tables in their order.

An update has two parts, so that few events cost few queries: `changes` gives the rows that changed since the table's
last event, and `plan` makes the new rows of the table from them. The changes of several tables are collected together,
and so are their new rows. `recompute` gives a table from scratch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tinyagi.pipeline.delta.snapshot import Snapshot
from tinyagi.pipeline.spark.lake_session import LakeSession, WritePlan
from tinyagi.pipeline.tables import silver
from tinyagi.pipeline.tables.catalog import QUARANTINE
from tinyagi.pipeline.tables.model import Table
from tinyagi.pipeline.tables.silver import RUNS
from tinyagi.pipeline.transform.columns import spark_schema
from tinyagi.pipeline.transform.fold import LAST_EVENT, fold
from tinyagi.pipeline.transform.parsed_events import valid_events
from tinyagi.pipeline.transform.quarantine import quarantined
from tinyagi.pipeline.transform.rows import Rows, as_frame, distinct, union
from tinyagi.pipeline.transform.silver import (
    chat_lines,
    handoffs,
    history_lines,
    message_updates,
    response_updates,
    run_updates,
    with_delivery_time,
    with_message_durations,
    with_run_outcome,
)

Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class NewEvents:
    """The parsed events of one slice."""

    parsed: DataFrame
    through_id: int
    are_few: bool

    def valid_after(self, after: int) -> DataFrame:
        return valid_events(self.parsed.where(F.col("id") > after))


@dataclass(frozen=True, slots=True)
class FoldedTable:
    """New row = fold(old row, later events): only files that hold touched rows are read and replaced."""

    table: Table
    updates: Transform
    finish: Transform

    def changes(self, _: LakeSession, snapshot: Snapshot, events: NewEvents) -> WritePlan:
        rows = self.updates(events.valid_after(snapshot.through_id))
        return WritePlan(rows, events.through_id, is_small=events.are_few)

    def plan(self, session: LakeSession, snapshot: Snapshot, changes: WritePlan) -> WritePlan:
        if changes.rows is None:
            return changes
        updates = changes.rows
        touched = snapshot.holding(distinct(updates, self.table.key[0])) if snapshot.files else ()
        if isinstance(updates, DataFrame) or not session.are_few(touched):
            stored: Rows = session.read_in_tasks(snapshot, touched)
            updates = as_frame(session.spark, updates)
        else:
            stored = snapshot.dataset(touched).to_table()
        folded = fold(stored, updates, self.table)
        is_small = not isinstance(folded, DataFrame)
        rows = self.finish(as_frame(session.spark, folded))
        return WritePlan(rows, changes.through_id, touched, is_small=is_small)

    def recompute(self, session: LakeSession, events: NewEvents) -> DataFrame:
        stored = session.read_in_tasks(session.open(self.table.name), ())
        folded = fold(stored, self.updates(events.valid_after(0)), self.table)
        return self.finish(as_frame(session.spark, folded))


@dataclass(frozen=True, slots=True)
class AppendedTable:
    """Events that become rows and never change."""

    table: Table
    rows: Transform

    def changes(self, _: LakeSession, snapshot: Snapshot, events: NewEvents) -> WritePlan:
        rows = self.rows(events.valid_after(snapshot.through_id))
        return WritePlan(rows, events.through_id, is_small=events.are_few)

    def plan(self, _: LakeSession, __: Snapshot, changes: WritePlan) -> WritePlan:
        return changes

    def recompute(self, _: LakeSession, events: NewEvents) -> DataFrame:
        return self.rows(events.valid_after(0))


@dataclass(frozen=True, slots=True)
class QuarantineTable:
    """Invalid events, and runs that end before they start. Comes after silver.runs."""

    table: Table = QUARANTINE

    def changes(self, session: LakeSession, snapshot: Snapshot, events: NewEvents) -> WritePlan:
        after = snapshot.through_id
        ended = session.changed_rows(RUNS.name, after).where(
            F.col("end_event_id").between(after + 1, events.through_id)
        )
        rows = quarantined(events.parsed.where(F.col("id") > after), ended)
        return WritePlan(rows, events.through_id, is_small=events.are_few)

    def plan(self, _: LakeSession, __: Snapshot, changes: WritePlan) -> WritePlan:
        return changes

    def recompute(self, session: LakeSession, events: NewEvents) -> DataFrame:
        return quarantined(events.parsed, session.read_in_tasks(session.open(RUNS.name)))


@dataclass(frozen=True, slots=True)
class DerivedTable:
    """Rows that are each computed from one row of another table."""

    table: Table
    source: str
    rows: Transform

    def changes(self, session: LakeSession, snapshot: Snapshot, events: NewEvents) -> WritePlan:
        source = session.open(self.source)
        files = source.reaching(LAST_EVENT, snapshot.through_id + 1)
        rows = self.rows(session.changed_rows(self.source, snapshot.through_id))
        return WritePlan(rows, events.through_id, is_small=session.are_few(files))

    def plan(self, session: LakeSession, snapshot: Snapshot, changes: WritePlan) -> WritePlan:
        if changes.rows is None:
            return changes
        changed = changes.rows
        key = self.table.key[0]
        keys = distinct(changed, key)
        touched = snapshot.holding(keys) if snapshot.files else ()
        if isinstance(changed, DataFrame) or not session.are_few(touched):
            changed = as_frame(session.spark, changed)
            stored: Rows = session.read_in_tasks(snapshot, touched).join(changed.select(key), key, "left_anti")
        else:
            stored = snapshot.dataset(touched).to_table(filter=~pc.field(key).isin(keys.combine_chunks()))
        rows = union(stored, changed, spark_schema(self.table))
        return WritePlan(rows, changes.through_id, touched, is_small=not isinstance(rows, DataFrame))

    def recompute(self, session: LakeSession, _: NewEvents) -> DataFrame:
        return self.rows(session.read_in_tasks(session.open(self.source)))


FROM_EVENTS: Final[tuple[FoldedTable | AppendedTable, ...]] = (
    FoldedTable(silver.MESSAGES, message_updates, with_message_durations),
    FoldedTable(silver.RUNS, run_updates, with_run_outcome),
    FoldedTable(silver.RESPONSES, response_updates, with_delivery_time),
    AppendedTable(silver.AGENT_MESSAGES, history_lines),
    AppendedTable(silver.CHAT_MESSAGES, chat_lines),
)

AFTER_SILVER: Final[tuple[DerivedTable | QuarantineTable, ...]] = (
    DerivedTable(silver.HANDOFFS, silver.MESSAGES.name, handoffs),
    QuarantineTable(),
)
