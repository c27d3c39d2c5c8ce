"""Verifies the lake: compares bronze with the log, and every other table with its recomputation from bronze."""

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tinyagi.pipeline.gold_updates import FROM_GOLD, FROM_SILVER
from tinyagi.pipeline.ingest.bronze import BRONZE
from tinyagi.pipeline.ingest.log_source import LogSource
from tinyagi.pipeline.silver_updates import AFTER_SILVER, FROM_EVENTS, NewEvents
from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.pipeline.tables.model import Table
from tinyagi.pipeline.transform.parsed_events import parsed_events


@dataclass(frozen=True, slots=True)
class TableCheck:
    """The result for one table."""

    table: str
    rows: int
    expected: int
    agrees: bool
    """True when the rows are equal, not only their number."""


def verify(session: LakeSession, log: LogSource) -> Iterator[TableCheck]:
    """Check every table as of the manifest, one result per table."""
    bronze = session.open(BRONZE)
    events = session.read_in_tasks(bronze).persist()
    try:
        yield _against_log(events, log)
        known = NewEvents(parsed_events(events), bronze.through_id, are_few=False)
        for update in (*FROM_EVENTS, *AFTER_SILVER):
            yield _compared(session, update.table, update.recompute(session, known))
        for days in FROM_SILVER:
            yield _compared(session, days.table, days.recompute(session))
        for last in FROM_GOLD:
            yield _compared(session, last.table, last.recompute(session))
    finally:
        events.unpersist()


def checksum(rows: DataFrame, table: Table) -> tuple[int, int]:
    """The number of rows, and a sum over all columns that does not depend on their order."""
    whole = F.xxhash64(*(column.name for column in table.all_columns)).cast("decimal(38,0)")
    found: Row = rows.agg(F.count("*"), F.coalesce(F.sum(whole), F.lit(0))).collect()[0]
    return int(found[0]), int(found[1])


def _stored(session: LakeSession, table: Table) -> DataFrame:
    return session.read_in_tasks(session.open(table.name))


def _compared(session: LakeSession, table: Table, expected: DataFrame) -> TableCheck:
    found, wanted = checksum(_stored(session, table), table), checksum(expected, table)
    return TableCheck(table.name, found[0], wanted[0], found == wanted)


def _against_log(events: DataFrame, log: LogSource) -> TableCheck:
    """Check that bronze holds each event once, and the same events as the log as far as the log goes back."""
    head: Row = events.agg(F.count("*"), F.count_distinct("id"), F.coalesce(F.max("id"), F.lit(0))).collect()[0]
    rows, distinct, through = head
    first = log.first()
    after = through if first is None else first - 1
    in_log = log.tally(after, through)
    in_bronze: Row = events.where(F.col("id") > after).agg(F.count("*"), F.coalesce(F.sum("id"), F.lit(0))).collect()[0]
    return TableCheck(BRONZE, rows, rows - in_bronze[0] + in_log[0], rows == distinct and tuple(in_bronze) == in_log)
