"""Reads a report from the lake's gold tables: pyarrow and deltalake only, no JVM."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.report import traffic, troubles
from tinyagi.pipeline.report.gold import GoldReader
from tinyagi.pipeline.report.model import Freshness, Report, Totals
from tinyagi.pipeline.report.units import day
from tinyagi.pipeline.report.work import DAY, HOUR, Work

HOURLY_DAYS: Final = 14
"""The longest range that is shown hour by hour."""

_OPTIONAL: Final = frozenset({"gold.alerts", "quarantine.events"})
"""Tables whose absence says that there was nothing to put into them."""


def read_report(lake: Lake, *, days: int, now: int) -> Report:
    """The figures of the last days, today (UTC) included; what is missing is named in its notes."""
    start = now // DAY * DAY - (days - 1) * DAY
    manifest = lake.manifest()
    if manifest is None:
        note = "The lake is empty: no pipeline run has ended yet. Fill it with `tinyagi pipeline run`."
        return Report(days=days, start=start, now=now, freshness=None, notes=(note,))
    gold = GoldReader(lake, manifest, day(start), day(now))
    work, conversations, edges = Work(gold), traffic.conversations(gold), traffic.edges(gold)
    people = traffic.people_by_channel(conversations)
    channels = traffic.channels(gold, people)
    quarantine = troubles.quarantine(gold)
    report = Report(
        days=days,
        start=start,
        now=now,
        freshness=Freshness(manifest.written_at, manifest.through_id),
        totals=replace(
            _work_totals(work),
            messages=sum(one.messages for one in channels),
            people=sum(people.values()),
            conversations=len(conversations),
            handoffs=sum(one.handoffs for one in edges),
        ),
        agents=work.agents(),
        hourly=work.slots(start, now + 1, HOUR) if days <= HOURLY_DAYS else (),
        daily=work.slots(start, now + 1, DAY),
        costs=work.costs(),
        slowest_hours=work.slowest_hours(),
        edges=edges,
        causes=troubles.causes(gold),
        slowest=traffic.slowest(gold, conversations),
        channels=channels,
        alerts=troubles.alerts(gold),
        quarantined=sum(one.events for one in quarantine),
        quarantine=quarantine,
    )
    return replace(report, notes=_notes(report, gold.missing))


def _work_totals(work: Work) -> Totals:
    tokens = {f"{kind}_tokens": int(work.total(f"{kind}_tokens")) for kind in ("input", "output", "cache")}
    return Totals(
        runs=int(work.total("runs")),
        completed=int(work.total("completed")),
        failures=int(work.total("failures")),
        retries=int(work.total("retries")),
        dead=int(work.total("dead")),
        **tokens,
        tokens=sum(tokens.values()),
        cost=work.total("cost"),
    )


def _notes(report: Report, missing: Sequence[str]) -> tuple[str, ...]:
    absent = [name for name in missing if name not in _OPTIONAL]
    if absent:
        what = "what they would tell" if len(absent) > 1 else "what it would tell"
        return (f"The lake has no {', '.join(absent)} yet: {what} is left out. Fill it with `tinyagi pipeline run`.",)
    if report.totals.runs:
        return ()
    when = "today (UTC)" if report.days == 1 else f"in the last {report.days} days"
    further = f"--days {max(30, report.days * 4)}"
    return (
        f"No run ended {when}. Look further back with `{further}`, or bring the lake up to date with "
        "`tinyagi pipeline run`.",
    )
