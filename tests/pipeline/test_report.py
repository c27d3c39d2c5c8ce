"""The figures of a report, recomputed from the rows of a lake."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.lakes import write_lake
from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manifest import LakeManifest, Pin, read_manifest, write_manifest
from tinyagi.pipeline.report.agent_hours import HISTOGRAM_BUCKETS
from tinyagi.pipeline.report.model import DayCost, Freshness, Report
from tinyagi.pipeline.report.read_report import HOURLY_DAYS, read_report
from tinyagi.pipeline.tables.gold import HISTOGRAM_EDGES

HOUR = 3_600_000
DAY = 24 * HOUR
NOON = int(datetime(2026, 3, 14, 12, tzinfo=UTC).timestamp() * 1000)
NOW = NOON + 30 * 60_000
TODAY = NOON - 12 * HOUR


def day(instant: int) -> object:
    return datetime.fromtimestamp(instant / 1000, UTC).date()


def bucket_of(value: float) -> int:
    return next((at for at, edge in enumerate(HISTOGRAM_EDGES) if value <= edge), len(HISTOGRAM_EDGES))


def histogram(values: Sequence[float]) -> list[int]:
    counts = [0] * HISTOGRAM_BUCKETS
    for value in values:
        counts[bucket_of(value)] += 1
    return counts


def exact(values: Sequence[float], share: float) -> float:
    """As Spark's `percentile`: between two neighbours in the order of all values."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = ordered[int(place)]
    return low + (place - int(place)) * (ordered[min(int(place) + 1, len(ordered) - 1)] - low)


def hour_row(agent: str, hour: int, waits: Sequence[int], runs: Sequence[int], **others: Any) -> dict[str, Any]:
    times = {
        f"{of}_p{p}": exact(values, p / 100) for of, values in (("wait", waits), ("run", runs)) for p in (50, 95, 99)
    }
    counts = {"runs": len(runs), "completed": len(runs), "failures": 0, "retries": 0, "dead": 0}
    tokens = {"input_tokens": 100, "output_tokens": 10, "cache_tokens": 1, "cost": 0.5}
    found = {"wait_hist": histogram(waits), "run_hist": histogram(runs)}
    return {"agent": agent, "hour": hour, **counts, **times, **tokens, **found, **others, "date": day(hour)}


def conversation(name: str, started: int, took: int | None, **others: Any) -> dict[str, Any]:
    known = {"channel": "telegram", "sender": "ada", "agent": "lead", "message": f"text of {name}", "messages": 3}
    return {
        "conversation_id": name,
        "started_at": started,
        "critical_path_ms": took,
        "depth": 2,
        "agents": 2,
        "run_ms": 7,
        "cost": 0.25,
        **known,
        **others,
        "date": day(started),
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def report_of(folder: Path, tables: dict[str, list[dict[str, Any]]], *, days: int = 7) -> Report:
    return read_report(write_lake(folder, tables), days=days, now=NOW)


def test_agents_are_summed_over_their_hours_and_the_busiest_comes_first(folder: Path) -> None:
    rows = [
        hour_row("lead", NOON, [5], [50], completed=0, failures=1, dead=1, retries=1, cost=0.1),
        hour_row("coder", NOON, [10, 20], [100, 200], cost=0.2),
        hour_row("coder", NOON - DAY, [30], [300], completed=0, failures=1, retries=1, cost=0.4),
    ]

    dead = [
        {"agent": agent, "fingerprint": "f", "messages": 9, "still_dead": number, "date": day(NOW)}
        for agent, number in (("lead", 4), ("gone", 2), ("coder", 0), ("revived", 0))
    ]

    report = report_of(folder, {"gold.agent_hourly": rows, "gold.dead_letters": dead})

    assert [(one.agent, one.runs, one.completed, one.failures, one.retries, one.dead) for one in report.agents] == [
        ("coder", 3, 2, 1, 1, 0),
        ("lead", 1, 0, 1, 1, 4),
        ("gone", 0, 0, 0, 0, 2),
    ]
    assert [one.tokens for one in report.agents] == [222, 111, 0]
    assert [one.cost for one in report.agents] == pytest.approx([0.6, 0.1, 0])
    totals = report.totals
    assert (totals.runs, totals.completed, totals.failures, totals.retries, totals.dead) == (4, 2, 2, 2, 6)
    assert (totals.input_tokens, totals.output_tokens, totals.cache_tokens, totals.tokens) == (300, 30, 3, 333)
    assert totals.cost == pytest.approx(0.7)


def test_percentiles_are_exact_for_one_hour_and_estimated_for_several(folder: Path) -> None:
    rows = [
        hour_row("once", NOON, [3, 7], [130, 170]),
        hour_row("often", NOON, [3, 7], [130, 170]),
        hour_row("often", NOON - DAY, [1_100, 1_900], [3_000, 4_000]),
    ]

    often, once = sorted(report_of(folder, {"gold.agent_hourly": rows}).agents, key=lambda one: -one.runs)

    assert once.run.is_exact
    assert (once.run.p50, once.run.p95, once.run.p99) == (150, 168, 169.6)
    assert (once.wait.p50, once.wait.is_exact) == (5, True)
    assert not often.run.is_exact
    # Two values each in the buckets 100 to 200 and 2,000 to 5,000: they count at the quarters of the buckets.
    assert often.run.p50 == pytest.approx((175 + 2_750) / 2)
    assert often.run.p99 == pytest.approx(2_750 + 0.97 * 1_500)


def test_the_slowest_hours_are_exact(folder: Path) -> None:
    rows = [hour_row("coder", NOON - number * HOUR, [1], [number * 10]) for number in range(1, 13)]

    slowest = report_of(folder, {"gold.agent_hourly": rows}).slowest_hours

    assert [one.run.p95 for one in slowest] == [120, 110, 100, 90, 80, 70, 60, 50, 40, 30]
    assert slowest[0].hour == NOON - 12 * HOUR
    assert slowest[0].run.is_exact


def test_only_the_requested_days_count_and_every_slot_is_listed(folder: Path) -> None:
    rows = [
        hour_row("coder", NOON, [1] * 7, [1] * 7, completed=1, failures=3),
        hour_row("lead", NOON, [1] * 2, [1] * 2, completed=1, failures=1),
        hour_row("coder", TODAY - DAY, [1, 1], [1, 1]),
        hour_row("coder", TODAY - DAY - HOUR, [1] * 9, [1] * 9),
    ]

    report = report_of(folder, {"gold.agent_hourly": rows}, days=2)

    assert report.start == TODAY - DAY
    assert report.totals.runs == 11
    assert [(slot.start, slot.runs) for slot in report.daily] == [(TODAY - DAY, 2), (TODAY, 9)]
    assert [slot.start for slot in report.hourly] == list(range(TODAY - DAY, NOON + 1, HOUR))
    assert [slot.runs for slot in report.hourly if slot.runs] == [2, 9]
    today = report.daily[-1]
    assert (today.completed, today.failures, today.interrupted) == (2, 4, 3)


def test_a_long_range_has_daily_slots_only(folder: Path) -> None:
    lake = write_lake(folder, {"gold.agent_hourly": [hour_row("coder", NOON, [1], [1])]})

    assert read_report(lake, days=HOURLY_DAYS, now=NOW).hourly
    longer = read_report(lake, days=HOURLY_DAYS + 1, now=NOW)
    assert longer.hourly == ()
    assert len(longer.daily) == HOURLY_DAYS + 1


def test_costs_are_listed_by_day_and_agent(folder: Path) -> None:
    rows = [
        hour_row("coder", NOON, [1], [1], cost=0.5),
        hour_row("coder", NOON - HOUR, [1], [1], cost=0.25),
        hour_row("lead", NOON, [1], [1], cost=None),
        hour_row("lead", NOON - DAY, [1], [1], cost=1.0),
    ]

    costs = report_of(folder, {"gold.agent_hourly": rows}).costs

    assert costs == (DayCost(TODAY - DAY, "lead", 1.0), DayCost(TODAY, "coder", 0.75))


def test_handoffs_are_summed_by_pair_with_the_p95_of_the_worst_day(folder: Path) -> None:
    pair = {"from_agent": "lead", "to_agent": "coder", "completed": 1, "dead": 1}
    rows = [
        {**pair, "handoffs": 3, "latency_p95": 900.0, "date": day(NOW)},
        {**pair, "handoffs": 4, "latency_p95": 700.0, "date": day(NOW - DAY)},
        {**pair, "to_agent": "tester", "handoffs": 9, "latency_p95": None, "date": day(NOW)},
    ]

    report = report_of(folder, {"gold.handoff_edges": rows})

    assert [(one.to_agent, one.handoffs, one.completed, one.dead, one.worst_p95) for one in report.edges] == [
        ("tester", 9, 1, 1, None),
        ("coder", 7, 2, 2, 900.0),
    ]
    assert report.totals.handoffs == 16


def test_each_person_is_counted_once(folder: Path) -> None:
    ada = {"channel": "telegram", "sender": "ada", "sender_id": "1", "date": day(NOW)}
    messages = [
        ada,
        {**ada, "sender": "Ada L.", "date": day(NOW - DAY)},
        {**ada, "sender_id": "2"},
        {**ada, "sender_id": None, "message_id": "schedule_news_1"},
        {**ada, "sender_id": "3", "from_agent": "coder"},
        {**ada, "channel": "discord"},
        {**ada, "channel": "discord", "sender": None, "sender_id": None},
        *({**ada, "channel": channel} for channel in ("chatroom", "heartbeat", "schedule", "board")),
    ]
    counts = {"completed": 4, "dead": 1, "responses": 6, "delivered": 5, "undelivered": 1}
    channels = [
        {"channel": "telegram", "messages": 5, "people": 2, "latency_p95": 50.0, **counts, "date": day(NOW)},
        {"channel": "telegram", "messages": 2, "people": 1, "latency_p95": 80.0, **counts, "date": day(NOW - DAY)},
        {"channel": "discord", "messages": 2, "dead": 0, "date": day(NOW)},
        {"channel": "heartbeat", "messages": 3, "dead": 1, "date": day(NOW)},
    ]

    report = report_of(folder, {"silver.messages": messages, "gold.channel_daily": channels})

    assert (report.totals.messages, report.totals.people, report.totals.dead_from_people) == (9, 3, 2)
    telegram, heartbeat, discord = report.channels
    assert (discord.people, heartbeat.people) == (1, 0)
    assert (telegram.messages, telegram.people, telegram.completed, telegram.dead) == (7, 2, 8, 2)
    assert (telegram.responses, telegram.delivered, telegram.undelivered, telegram.worst_p95) == (12, 10, 2, 80.0)


def test_dead_messages_are_grouped_by_cause(folder: Path) -> None:
    timeout = {"fingerprint": "f1", "error_kind": "Timeout", "still_dead": 1}
    rows = [
        {**timeout, "agent": "coder", "error": "old", "messages": 2, "first_at": 10, "last_at": 20, "example_id": 1},
        {**timeout, "agent": "lead", "error": "new", "messages": 3, "first_at": 15, "last_at": 40, "example_id": 2},
        {"fingerprint": "f2", "agent": "lead", "messages": 9, "still_dead": 0},
    ]

    report = report_of(folder, {"gold.dead_letters": [{**row, "date": day(NOW)} for row in rows]})

    unknown, known = report.causes
    assert (unknown.fingerprint, unknown.messages, unknown.error_kind, unknown.first_at) == ("f2", 9, "", None)
    assert (known.error, known.agents, known.messages, known.still_dead) == ("new", ("coder", "lead"), 5, 2)
    assert (known.first_at, known.last_at, known.example_id) == (10, 40, 2)


def test_exactly_ten_slowest_conversations_are_listed(folder: Path) -> None:
    rows = [conversation(f"c{number:02}", NOON - number, 100 + min(number, 8)) for number in range(20)]
    rows.append(conversation("open", NOON, None, open=1))
    # Lakes of earlier versions give open conversations a duration.
    rows.append(conversation("open before", NOON - 1, 999, open=2))
    rows.append(conversation("room", NOON, None, open=1, channel="chatroom"))

    report = report_of(folder, {"gold.conversations": rows})

    slowest = report.slowest
    assert [(one.conversation_id, one.open) for one in report.open] == [("open before", 2), ("open", 1)]
    assert (report.totals.conversations, report.totals.open_conversations) == (23, 2)

    assert [one.conversation_id for one in slowest] == [f"c{number}" for number in range(19, 9, -1)]
    assert {one.critical_path_ms for one in slowest} == {108}
    assert slowest[0].message == "text of c19"


def test_alerts_and_quarantine_are_listed(folder: Path) -> None:
    alerts = [
        {"rule": "cost_spike", "agent": "lead", "hour": NOON - number * HOUR, "text": f"{number}", "date": day(NOW)}
        for number in (2, 1)
    ]
    doubted = [{"id": number, "reason": "negative" if number else "odd", "date": day(NOW)} for number in range(4)]

    report = report_of(folder, {"gold.alerts": alerts, "quarantine.events": doubted})

    assert [one.text for one in report.alerts] == ["1", "2"]
    assert report.quarantined == 4
    assert [(one.reason, one.events) for one in report.quarantine] == [("negative", 3), ("odd", 1)]


def test_a_report_can_be_written_as_json(folder: Path) -> None:
    report = report_of(folder, {"gold.agent_hourly": [hour_row("coder", NOON, [1], [1])]})

    assert json.loads(json.dumps(asdict(report)))["agents"][0]["agent"] == "coder"


def test_an_empty_lake_names_the_remedy(folder: Path) -> None:
    report = read_report(Lake(folder), days=7, now=NOW)

    assert report.freshness is None
    assert report.is_empty
    assert report.notes == ("The lake is empty: no pipeline run has ended yet. Fill it with `tinyagi pipeline run`.",)


def test_missing_tables_are_named_with_the_remedy(folder: Path) -> None:
    report = report_of(folder, {"gold.agent_hourly": [hour_row("coder", NOON, [1], [1])]})

    assert report.totals.runs == 1
    (note,) = report.notes
    missing = ("gold.conversations", "gold.handoff_edges", "gold.channel_daily", "gold.dead_letters")
    assert all(name in note for name in missing)
    assert "gold.alerts" not in note
    assert "`tinyagi pipeline run`" in note


def test_a_table_without_a_folder_is_missing(folder: Path) -> None:
    lake = write_lake(folder, {"gold.agent_hourly": [hour_row("coder", NOON, [1], [1])], "gold.handoff_edges": []})
    shutil.rmtree(lake.path("gold.agent_hourly"))

    report = read_report(lake, days=7, now=NOW)

    assert report.agents == ()
    assert "gold.agent_hourly" in report.notes[0]


def test_missing_files_are_reported(folder: Path) -> None:
    lake = write_lake(folder, {"gold.agent_hourly": [hour_row("coder", NOON, [1], [1])]})
    (file,) = lake.path("gold.agent_hourly").rglob("*.parquet")
    file.unlink()

    with pytest.raises(LakeBroken, match=r"Files of gold\.agent_hourly are gone.*Try again"):
        read_report(lake, days=7, now=NOW)


def test_an_empty_range_suggests_more_days(folder: Path) -> None:
    names = ("gold.conversations", "gold.handoff_edges", "gold.channel_daily", "gold.dead_letters", "silver.messages")
    rows = {"gold.agent_hourly": [hour_row("coder", NOON - 20 * DAY, [1], [1])], **{name: [] for name in names}}

    report = report_of(folder, rows)

    assert report.is_empty
    assert report.notes[0].startswith("No run ended in the last 7 days. Look further back with `--days 30`")
    assert read_report(Lake(folder), days=30, now=NOW).notes == ()


def test_the_versions_of_the_manifest_are_read(folder: Path) -> None:
    lake = write_lake(folder, {"gold.agent_hourly": [hour_row("coder", NOON, [1], [1])]})
    before = read_manifest(lake.manifest_file)
    assert before is not None
    write_lake(folder, {"gold.agent_hourly": [hour_row("coder", NOON, [1] * 5, [1] * 5)]}, through_id=77)
    assert read_report(lake, days=1, now=NOW).totals.runs == 5

    write_manifest(lake.manifest_file, before)

    assert read_report(lake, days=1, now=NOW).totals.runs == 1
    assert read_report(lake, days=1, now=NOW).freshness == Freshness(before.written_at, before.through_id)
    assert before.tables["gold.agent_hourly"] == Pin(0, 1_000_000)


class Moving(Lake):
    """A lake in which a pipeline run ends as soon as a read has begun."""

    def manifest(self) -> LakeManifest | None:
        found = super().manifest()
        write_lake(self.folder, {"gold.agent_hourly": [hour_row("coder", NOON, [1] * 5, [1] * 5)]})
        return found


def test_a_run_that_ends_during_a_read_changes_nothing(folder: Path) -> None:
    write_lake(folder, {"gold.agent_hourly": [hour_row("coder", NOON, [1], [1])]})

    assert read_report(Moving(folder), days=1, now=NOW).totals.runs == 1


def test_a_histogram_of_another_length_is_ignored(folder: Path) -> None:
    rows = [
        hour_row("coder", NOON, [1], [150], run_hist=[1, 2]),
        hour_row("coder", NOON - HOUR, [1], [150], run_hist=None),
        hour_row("coder", NOON - 2 * HOUR, [1], [150]),
    ]

    (coder,) = report_of(folder, {"gold.agent_hourly": rows}).agents

    assert coder.runs == 3
    assert coder.run.p50 == 150
