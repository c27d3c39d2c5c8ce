"""Silver computed from a log in plain Python, event by event: every message, run and response."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from tests.support.log import Tables
from tinyagi.domain.events import RecordedEvent

Row = dict[str, Any]

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
FIRST_DAY, LAST_DAY = date(2020, 1, 1), date(2100, 1, 1)
OUTCOMES = {
    "message_failed": "failed",
    "message_dead": "dead",
    "message_stopped": "stopped",
    "message_released": "released",
    "message_recovered": "recovered",
}
USED = ("provider", "model", "input_tokens", "output_tokens", "cache_tokens", "cost")


@dataclass
class ExpectedSilver:
    """Expected rows of silver, as far as they follow from the log, including deleted messages."""

    tables: Tables = field(default_factory=Tables)
    messages: dict[int, Row] = field(default_factory=dict)
    runs: dict[str, Row] = field(default_factory=dict)
    responses: dict[int, Row] = field(default_factory=dict)


def expected_silver(events: Sequence[RecordedEvent]) -> ExpectedSilver:
    """The expected rows; all events must be valid."""
    expected = ExpectedSilver()
    beside: dict[int, Row] = defaultdict(lambda: {"runs": None, "deaths": None})
    teams: dict[int, str | None] = {}
    gone: dict[int, Row] = {}
    for event in events:
        fact = event.payload
        if event.type == "message_deleted":
            last = {"status": "deleted", "updated_at": event.created_at, "last_event_id": event.id}
            gone[fact["id"]] = expected.tables.messages[fact["id"]] | last
        expected.tables.apply(event)
        arrived = _arrived(event)
        if arrived is not None:
            teams[arrived["id"]] = arrived["conversation_team"]
        _note(beside, event)
        if fact.get("claim_id") is not None and event.type in {"chain_step_start", "chain_step_done", *OUTCOMES}:
            _add_to_run(expected.runs.setdefault(fact["claim_id"], _begun(event)), event)
    for number, row in {**expected.tables.messages, **gone}.items():
        # The lake keeps the latest run of a message, and the team that its conversation had on arrival.
        plain = row | {"claim_id": None, "conversation_team": teams[number]}
        expected.messages[number] = _finished_message(plain | beside[number])
    for run in expected.runs.values():
        _finish_run(run)
    for number, row in expected.tables.responses.items():
        expected.responses[number] = row | {"delivery_ms": elapsed(row["created_at"], row["acked_at"])}
    lines = (expected.tables.agent_messages, expected.tables.chat_messages)
    for rows in (expected.messages, expected.runs, expected.responses, *lines):
        for row in rows.values():
            row |= {name: _within_years(value) for name, value in row.items() if name.endswith("_at")}
    return expected


def day_of(instant: int) -> date:
    """The UTC date, kept within bounds for wrong clocks."""
    low, high = (int(datetime(day.year, 1, 1, tzinfo=UTC).timestamp()) for day in (FIRST_DAY, LAST_DAY))
    return datetime.fromtimestamp(min(max(instant / 1000, low), high), UTC).date()


def _within_years(instant: int | None) -> int | None:
    """The lake has times of the years 1 to 9999 only."""
    return None if instant is None else min(max(instant, FIRST_MS), LAST_MS)


def elapsed(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None or end < start else end - start


def _arrived(event: RecordedEvent) -> Row | None:
    if event.type == "message_received":
        return dict(event.payload["message"])
    is_import = event.type == "row_imported" and event.payload["table"] == "messages"
    return dict(event.payload["row"]) if is_import else None


def _note(beside: dict[int, Row], event: RecordedEvent) -> None:
    """Columns of a message that the store does not have."""
    fact, at = event.payload, event.created_at
    if event.type == "row_imported" and fact["table"] == "messages":
        row, about = fact["row"], beside[fact["row"]["id"]]
        about["first_started_at"] = row["started_at"]
        about |= {"completed_at": row["updated_at"]} if row["status"] == "completed" else {}
        about |= {"died_at": row["updated_at"], "deaths": 1} if row["status"] == "dead" else {}
    elif event.type == "chain_step_start":
        for number in fact["ids"]:
            about = beside[number]
            about |= {"claim_id": fact["claim_id"], "runs": (about["runs"] or 0) + 1}
            about["first_started_at"] = about.get("first_started_at") or at
    elif event.type == "chain_step_done":
        for number in fact["ids"]:
            beside[number]["completed_at"] = at
        beside[fact["ids"][0]]["answer"] = fact["content"] or None
    elif event.type in OUTCOMES:
        _note_failure(beside[fact["id"]], event)


def _note_failure(about: Row, event: RecordedEvent) -> None:
    fact = event.payload
    if event.type in {"message_dead", "message_stopped"}:
        about |= {"died_at": event.created_at, "deaths": (about["deaths"] or 0) + 1}
    if event.type == "message_stopped":
        about["error_kind"] = "stopped"
    elif event.type == "message_recovered":
        about["error_kind"] = "crash"
    elif event.type == "message_dead" or fact.get("attempt_used"):
        about["error_kind"] = fact["kind"]


def _finished_message(row: Row) -> Row:
    is_done = row["status"] == "completed"
    return {
        "answer": None,
        "error_kind": None,
        "first_started_at": None,
        "completed_at": None,
        "died_at": None,
        **row,
        "wait_ms": elapsed(row["created_at"], row.get("first_started_at")),
        "run_ms": elapsed(row["started_at"], row.get("completed_at")) if is_done else None,
        "latency_ms": elapsed(row["created_at"], row.get("completed_at")) if is_done else None,
    }


def _begun(event: RecordedEvent) -> Row:
    return {
        "claim_id": event.payload["claim_id"],
        "agent": event.agent,
        "conversation_id": event.conversation_id,
        "conversation_started_at": event.conversation_started_at,
        "message_id": event.message_id,
        "attempt": event.payload.get("attempt"),
        "results": [],
        "is_done": False,
        **dict.fromkeys(("team", "ids", "from_agent", "started_at", "ended_at", "wait_ms", "told_ms", "error_kind")),
        **dict.fromkeys((*USED, "end_event_id", "outcome", "error", "run_ms")),
    }


def _add_to_run(run: Row, event: RecordedEvent) -> None:
    fact = event.payload
    run["last_event_id"] = event.id
    run["ids"] = run["ids"] or fact.get("ids")
    if event.type == "chain_step_start":
        run |= {"started_at": event.created_at, "from_agent": fact["from_agent"], "wait_ms": fact["wait_ms"]}
        return
    if run["ended_at"] is None:
        run |= {"ended_at": event.created_at, "end_event_id": event.id}
    run |= {name: value for name, value in (fact.get("usage") or {}).items() if value is not None}
    run["error_kind"] = fact.get("kind") or run["error_kind"]
    if event.type == "chain_step_done":
        run |= {"is_done": True, "told_ms": fact["duration_ms"], "team": fact["team_id"]}
    else:
        result = {name: fact[name] for name in ("id", "attempt", "reason")}
        run["results"].append({**result, "outcome": OUTCOMES[event.type]})


def _finish_run(run: Row) -> None:
    """The outcome of a run is that of its first message."""
    of_first = [result for result in run["results"] if result["id"] == (run["ids"] or [None])[0]]
    result = next(iter(of_first or run["results"]), {"outcome": "running", "reason": None})
    run["outcome"] = "completed" if run["is_done"] else result["outcome"]
    run["error"] = None if run["is_done"] else result["reason"]
    run["run_ms"] = elapsed(run["started_at"], run["ended_at"])
