"""Reads a Report from the gold tables, as of the manifest and without Spark."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tinyagi.domain.instants import DAY_MS, HOUR_MS, utc_day
from tinyagi.domain.messages import ROOM_CHANNEL
from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.instants import in_millis
from tinyagi.pipeline.lake import Lake, between
from tinyagi.pipeline.manifest import LakeManifest
from tinyagi.pipeline.report.agent_hours import AGENT_HOUR_COLUMNS, TOP, AgentHours, Row
from tinyagi.pipeline.report.model import (
    Alert,
    Cause,
    ChannelFigures,
    Edge,
    Freshness,
    OpenConversation,
    QuarantineReason,
    Report,
    SlowConversation,
    Totals,
)
from tinyagi.pipeline.tables.catalog import find_table
from tinyagi.pipeline.tables.gold import PROGRAM_CHANNELS, SCHEDULE_PREFIX
from tinyagi.pipeline.tables.schema import arrow_schema

HOURLY_DAYS: Final = 14
"""The longest range with hourly figures."""

_OPTIONAL: Final = frozenset({"gold.alerts", "quarantine.events"})
"""Tables that may be missing without a note."""

_IS_OPEN: Final = (pc.field("open") > 0) & (pc.field("channel") != ROOM_CHANNEL)

MOST_ALERTS: Final = 20
"""Alerts in a report."""


class GoldReader:
    """Tables of one manifest, limited to the days of one report."""

    def __init__(self, lake: Lake, manifest: LakeManifest, first: date, last: date) -> None:
        self._lake = lake
        self._manifest = manifest
        self._days = between(first, last)
        self.missing: list[str] = []
        """Requested tables that do not exist."""

    def rows(self, name: str, columns: Sequence[str], where: pc.Expression | None = None) -> pa.Table:
        """Rows within the days; empty for a missing table. Raise LakeBroken when files of it are gone."""
        pin = self._manifest.tables.get(name)
        try:
            if pin is not None and self._lake.exists(name):
                days = self._days if where is None else self._days & where
                return self._lake.rows(name, columns=columns, where=days, as_of=pin.version)
        except FileNotFoundError as error:
            raise LakeBroken(
                f"Files of {name} are gone: a vacuum ran during the read. Try again; if it fails again, "
                "run `tinyagi pipeline verify`."
            ) from error
        if name not in self.missing:
            self.missing.append(name)
        schema = arrow_schema(find_table(name))
        return in_millis(pa.schema([schema.field(column) for column in columns]).empty_table())


def read_report(lake: Lake, *, days: int, now: int) -> Report:
    """The figures of the last days, including today (UTC); its notes name missing tables."""
    start = now // DAY_MS * DAY_MS - (days - 1) * DAY_MS
    manifest = lake.manifest()
    if manifest is None:
        note = "The lake is empty: no pipeline run has ended yet. Fill it with `tinyagi pipeline run`."
        return Report(days=days, start=start, now=now, freshness=None, notes=(note,))
    gold = GoldReader(lake, manifest, utc_day(start), utc_day(now))
    causes, quarantine = read_causes(gold), read_quarantine(gold)
    hours = AgentHours(gold.rows("gold.agent_hourly", AGENT_HOUR_COLUMNS))
    conversations, edges, channels = read_conversations(gold), read_edges(gold), read_channels(gold)
    from_people = [one for one in channels if one.channel not in PROGRAM_CHANNELS]
    report = Report(
        days=days,
        start=start,
        now=now,
        freshness=Freshness(manifest.written_at, manifest.through_id),
        totals=replace(
            _run_totals(hours),
            messages=sum(one.messages for one in from_people),
            people=sum(one.people for one in channels),
            conversations=len(conversations),
            open_conversations=number_open(conversations),
            dead=sum(one.still_dead for one in causes),
            dead_from_people=sum(one.dead for one in from_people),
            handoffs=sum(one.handoffs for one in edges),
        ),
        agents=hours.agents(dead_by_agent(gold)),
        hourly=hours.slots(start, now + 1, HOUR_MS) if days <= HOURLY_DAYS else (),
        daily=hours.slots(start, now + 1, DAY_MS),
        costs=hours.costs(),
        slowest_hours=hours.slowest_hours(),
        edges=edges,
        causes=causes,
        slowest=read_slowest(gold, conversations),
        open=oldest_open(gold),
        channels=channels,
        alerts=read_alerts(gold),
        quarantined=sum(one.events for one in quarantine),
        quarantine=quarantine,
    )
    return replace(report, notes=_notes(report, gold.missing))


def _run_totals(hours: AgentHours) -> Totals:
    tokens = {f"{kind}_tokens": int(hours.total(f"{kind}_tokens")) for kind in ("input", "output", "cache")}
    runs, completed, failures, retries = (
        int(hours.total(name)) for name in ("runs", "completed", "failures", "retries")
    )
    return Totals(
        runs=runs,
        completed=completed,
        failures=failures,
        interrupted=runs - completed - failures,
        retries=retries,
        **tokens,
        tokens=sum(tokens.values()),
        cost=hours.total("cost"),
    )


def _notes(report: Report, missing: Sequence[str]) -> tuple[str, ...]:
    absent = [name for name in missing if name not in _OPTIONAL]
    if absent:
        figures = "their figures are" if len(absent) > 1 else "its figures are"
        return (f"The lake has no {', '.join(absent)} yet: {figures} missing here. Run `tinyagi pipeline run`.",)
    if report.totals.runs:
        return ()
    when = "today (UTC)" if report.days == 1 else f"in the last {report.days} days"
    option = f"--days {max(30, report.days * 4)}"
    return (
        f"No run ended {when}. Look further back with `{option}`, or bring the lake up to date with "
        "`tinyagi pipeline run`.",
    )


def read_conversations(gold: GoldReader) -> pa.Table:
    """All conversations without their texts, which are most of the table."""
    return gold.rows("gold.conversations", ("channel", "open", "critical_path_ms"))


def number_open(conversations: pa.Table) -> int:
    return int(conversations.filter(_IS_OPEN).num_rows)


def oldest_open(gold: GoldReader) -> tuple[OpenConversation, ...]:
    columns = ("conversation_id", "started_at", "channel", "agent", "message", "messages", "open")
    rows = gold.rows("gold.conversations", columns, where=_IS_OPEN)
    order = pc.sort_indices(rows, sort_keys=[("started_at", "ascending"), ("conversation_id", "ascending")])
    return tuple(
        OpenConversation(
            conversation_id=row["conversation_id"] or "",
            started_at=row["started_at"] or 0,
            channel=row["channel"] or "",
            agent=row["agent"] or "",
            message=row["message"] or "",
            messages=row["messages"] or 0,
            open=row["open"] or 0,
        )
        for row in rows.take(order[:TOP]).to_pylist()
    )


def _people(gold: GoldReader) -> dict[str, int]:
    """Different people per channel. Daily counts cannot be added: a person may write on several days."""
    is_person = ~pc.field("channel").isin(sorted(PROGRAM_CHANNELS)) & pc.field("from_agent").is_null()
    rows = gold.rows("silver.messages", ("message_id", "channel", "sender_id", "sender"), where=is_person)
    rows = rows.filter(pc.invert(pc.fill_null(pc.starts_with(rows["message_id"], SCHEDULE_PREFIX), False)))
    named = rows.append_column("person", pc.coalesce(rows["sender_id"], rows["sender"]))
    counted = named.group_by("channel").aggregate([("person", "count_distinct")])
    return {row["channel"] or "": row["person_count_distinct"] or 0 for row in counted.to_pylist()}


def read_edges(gold: GoldReader) -> tuple[Edge, ...]:
    columns = ("from_agent", "to_agent", "handoffs", "completed", "dead", "latency_p95")
    sums = [(name, "sum") for name in ("handoffs", "completed", "dead")]
    rows = gold.rows("gold.handoff_edges", columns).group_by(["from_agent", "to_agent"])
    found = [
        Edge(
            from_agent=row["from_agent"] or "",
            to_agent=row["to_agent"] or "",
            handoffs=row["handoffs_sum"] or 0,
            completed=row["completed_sum"] or 0,
            dead=row["dead_sum"] or 0,
            worst_p95=row["latency_p95_max"],
        )
        for row in rows.aggregate([*sums, ("latency_p95", "max")]).to_pylist()
    ]
    return tuple(sorted(found, key=lambda one: (-one.handoffs, one.from_agent, one.to_agent)))


def read_channels(gold: GoldReader) -> tuple[ChannelFigures, ...]:
    people = _people(gold)
    counts = ("messages", "completed", "dead", "responses", "delivered", "undelivered")
    rows = gold.rows("gold.channel_daily", ("channel", *counts, "latency_p95")).group_by("channel")
    found = [
        ChannelFigures(
            channel=row["channel"] or "",
            people=people.get(row["channel"] or "", 0),
            worst_p95=row["latency_p95_max"],
            **{name: row[f"{name}_sum"] or 0 for name in counts},
        )
        for row in rows.aggregate([*((name, "sum") for name in counts), ("latency_p95", "max")]).to_pylist()
    ]
    return tuple(sorted(found, key=lambda one: (-one.messages, -one.responses, one.channel)))


def read_slowest(gold: GoldReader, conversations: pa.Table) -> tuple[SlowConversation, ...]:
    """The slowest ended conversations, read again with their texts."""
    is_over = pc.coalesce(pc.field("open"), pc.scalar(0)) == 0
    times = conversations.filter(is_over)["critical_path_ms"].drop_null()
    if len(times) == 0:
        return ()
    longest = times.take(pc.select_k_unstable(times, k=min(TOP, len(times)), sort_keys=[("", "descending")]))
    columns = ("conversation_id", "started_at", "channel", "agent", "message", "messages", "depth", "agents", "run_ms")
    rows = gold.rows(
        "gold.conversations",
        (*columns, "critical_path_ms", "cost"),
        where=(pc.field("critical_path_ms") >= pc.min(longest)) & is_over,
    )
    found = [
        SlowConversation(
            conversation_id=row["conversation_id"] or "",
            started_at=row["started_at"] or 0,
            channel=row["channel"] or "",
            agent=row["agent"] or "",
            message=row["message"] or "",
            messages=row["messages"] or 0,
            depth=row["depth"] or 0,
            agents=row["agents"] or 0,
            critical_path_ms=row["critical_path_ms"] or 0,
            run_ms=row["run_ms"] or 0,
            cost=row["cost"] or 0.0,
        )
        for row in rows.to_pylist()
    ]
    return tuple(sorted(found, key=lambda one: (-one.critical_path_ms, one.started_at, one.conversation_id))[:TOP])


def read_causes(gold: GoldReader) -> tuple[Cause, ...]:
    columns = ("agent", "fingerprint", "error_kind", "error", "messages", "still_dead")
    rows = gold.rows("gold.dead_letters", (*columns, "first_at", "last_at", "example_id")).to_pylist()
    by_fingerprint: dict[str, list[Row]] = {}
    for row in rows:
        by_fingerprint.setdefault(row["fingerprint"] or "", []).append(row)
    found = [_cause(fingerprint, same) for fingerprint, same in by_fingerprint.items()]
    return tuple(sorted(found, key=lambda one: (-one.messages, one.fingerprint)))


def dead_by_agent(gold: GoldReader) -> dict[str, int]:
    """Dead messages per agent."""
    rows = gold.rows("gold.dead_letters", ("agent", "still_dead")).group_by("agent").aggregate([("still_dead", "sum")])
    return {row["agent"] or "": row["still_dead_sum"] or 0 for row in rows.to_pylist()}


def _cause(fingerprint: str, rows: list[Row]) -> Cause:
    latest = max(rows, key=lambda row: row["last_at"] or 0)
    return Cause(
        fingerprint=fingerprint,
        error_kind=latest["error_kind"] or "",
        error=latest["error"] or "",
        agents=tuple(sorted({row["agent"] or "" for row in rows})),
        messages=sum(row["messages"] or 0 for row in rows),
        still_dead=sum(row["still_dead"] or 0 for row in rows),
        first_at=min((at for row in rows if (at := row["first_at"]) is not None), default=None),
        last_at=latest["last_at"],
        example_id=latest["example_id"],
    )


def read_alerts(gold: GoldReader) -> tuple[Alert, ...]:
    rows = gold.rows("gold.alerts", ("rule", "agent", "hour", "text")).to_pylist()
    found = [Alert(row["rule"] or "", row["agent"] or "", row["hour"] or 0, row["text"] or "") for row in rows]
    return tuple(sorted(found, key=lambda one: (-one.hour, one.rule, one.agent))[:MOST_ALERTS])


def read_quarantine(gold: GoldReader) -> tuple[QuarantineReason, ...]:
    rows = gold.rows("quarantine.events", ("reason",)).group_by("reason").aggregate([([], "count_all")])
    found = [QuarantineReason(row["reason"] or "", row["count_all"] or 0) for row in rows.to_pylist()]
    return tuple(sorted(found, key=lambda one: (-one.events, one.reason)))
