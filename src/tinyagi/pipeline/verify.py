"""Do the tables agree? The hot log with bronze, and every other table with what bronze says it should be."""

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.pipeline.facts import believed, doubted, facts
from tinyagi.pipeline.ingest import BRONZE, Log
from tinyagi.pipeline.plan import FROM_EVENTS, FROM_GOLD, FROM_SILVER, HANDOFFS
from tinyagi.pipeline.silver.runs import backward_runs
from tinyagi.pipeline.tables import silver
from tinyagi.pipeline.tables.bronze import QUARANTINE
from tinyagi.pipeline.tables.model import Table
from tinyagi.pipeline.workshop import Workshop


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check of one table found."""

    table: str
    rows: int
    expected: int
    agrees: bool
    """True when every row is as it should be, not only their number."""


def verify(shop: Workshop, log: Log) -> Iterator[Verdict]:
    """One verdict per table, as of the manifest: everything is worked out afresh from bronze and compared."""
    events = shop.read(shop.open(BRONZE)).persist()
    try:
        yield _against_log(events, log)
        read = facts(events)
        good = believed(read)
        for step in FROM_EVENTS:
            yield _compared(shop, step.table, step.everything(shop, good))
        yield _compared(shop, HANDOFFS.table, HANDOFFS.everything(shop))
        yield _compared(shop, QUARANTINE, quarantined(read, _stored(shop, silver.RUNS)))
        for step_to_gold in FROM_SILVER:
            yield _compared(shop, step_to_gold.table, step_to_gold.everything(shop))
        for last_step in FROM_GOLD:
            yield _compared(shop, last_step.table, last_step.everything(shop))
    finally:
        events.unpersist()


def quarantined(read: DataFrame, runs: DataFrame) -> DataFrame:
    """Events that are not believed by themselves, and ends that do not fit their beginnings."""
    wanted = [column.name for column in QUARANTINE.all_columns]
    return doubted(read).select(*wanted).unionByName(backward_runs(runs))


def fingerprint(rows: DataFrame, table: Table) -> tuple[int, int]:
    """How many rows there are, and a sum over all their columns that no order changes."""
    whole = F.xxhash64(*(column.name for column in table.all_columns)).cast("decimal(38,0)")
    found: Row = rows.agg(F.count("*"), F.coalesce(F.sum(whole), F.lit(0))).collect()[0]
    return int(found[0]), int(found[1])


def _stored(shop: Workshop, table: Table) -> DataFrame:
    return shop.read(shop.open(table.name))


def _compared(shop: Workshop, table: Table, expected: DataFrame) -> Verdict:
    is_, should_be = fingerprint(_stored(shop, table), table), fingerprint(expected, table)
    return Verdict(table.name, is_[0], should_be[0], is_ == should_be)


def _against_log(events: DataFrame, log: Log) -> Verdict:
    """Bronze holds each event once, and the same as the log for as far as the log still goes back."""
    head: Row = events.agg(F.count("*"), F.count_distinct("id"), F.coalesce(F.max("id"), F.lit(0))).collect()[0]
    rows, distinct, through = head
    first = log.first()
    after = through if first is None else first - 1
    there = log.tally(after, through)
    beyond: Row = events.where(F.col("id") > after).agg(F.count("*"), F.coalesce(F.sum("id"), F.lit(0))).collect()[0]
    return Verdict(BRONZE, rows, rows - beyond[0] + there[0], rows == distinct and tuple(beyond) == there)
