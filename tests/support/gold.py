"""Gold computed from the event log in plain Python: the expected result of any pipeline."""

import hashlib
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

from tests.support.expected_silver import ExpectedSilver, Row, day_of, elapsed, expected_silver
from tinyagi.domain.chats import person_of
from tinyagi.domain.events import RecordedEvent
from tinyagi.domain.messages import ROOM_CHANNEL

EDGES: Final = tuple(step * 10**power for power in range(8) for step in (1, 2, 5))
HOUR: Final = 3_600_000
OPEN: Final = ("pending", "processing")
PROGRAM: Final = {"heartbeat", "schedule", "board", "chatroom", "internal"}
TOKENS: Final = ("input_tokens", "output_tokens", "cache_tokens")
VARYING: Final = (
    (r"[a-z][a-z0-9+.-]*://\S+", "<address>"),
    (r"(/[\w.~-]+){2,}/?", "<path>"),
    (r"\b[0-9a-f]{8,}(-[0-9a-f]{4,})*\b", "<id>"),
    (r"\b\w+_[0-9a-z]{8}\b", "<id>"),
    (r"'[^']*'|\"[^\"]*\"|`[^`]*`", "<text>"),
    (r"\d+", "#"),
    (r"\s+", " "),
)


def expected_gold(events: Sequence[RecordedEvent]) -> dict[str, list[Row]]:
    """Rows per table, in the order of the keys. The caller leaves out invalid events."""
    expected = expected_silver(events)
    return {
        "gold.agent_hourly": _agent_hourly(expected),
        "gold.conversations": _conversations(expected),
        "gold.handoff_edges": _handoff_edges(expected),
        "gold.channel_daily": _channel_daily(expected),
        "gold.dead_letters": _dead_letters(expected),
    }


def percentile(values: Iterable[int | None], share: int) -> float | None:
    """Exact, interpolated between the two nearest values; None without values."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    place = (len(known) - 1) * share / 100
    low = int(place)
    high = min(low + 1, len(known) - 1)
    return known[low] + (known[high] - known[low]) * (place - low)


def histogram(values: Iterable[int | None]) -> list[int]:
    """One count per edge, for values above the edge before it, and one for the rest."""
    found = Counter(bisect_left(EDGES, value) for value in values if value is not None)
    return [found[place] for place in range(len(EDGES) + 1)]


def fingerprint(error: str) -> str:
    shape = error.lower()
    for varying, stand_in in VARYING:
        shape = re.sub(varying, stand_in, shape, flags=re.ASCII)
    return hashlib.sha256(shape.strip(" ").encode()).hexdigest()[:12]


def cost_of(runs: Iterable[Row]) -> float:
    """Added as decimals of nine places."""
    spent = (Decimal(repr(run["cost"])) for run in runs if run["cost"] is not None)
    return float(sum((one.quantize(Decimal("1e-9"), ROUND_HALF_UP) for one in spent), Decimal(0)))


def _agent_hourly(expected: ExpectedSilver) -> list[Row]:
    ended = [run for run in expected.runs.values() if run["ended_at"] is not None]
    return [
        {
            "agent": agent,
            "hour": hour,
            "date": day_of(hour),
            "runs": len(runs),
            "completed": _how_many(runs, "outcome", "completed"),
            "failures": _how_many(runs, "outcome", "failed", "dead"),
            "retries": sum(run["attempt"] > 1 for run in runs),
            "dead": _how_many(runs, "outcome", "dead"),
            **{f"wait_p{share}": percentile(_each(runs, "wait_ms"), share) for share in (50, 95, 99)},
            **{f"run_p{share}": percentile(_each(runs, "run_ms"), share) for share in (50, 95, 99)},
            "wait_hist": histogram(_each(runs, "wait_ms")),
            "run_hist": histogram(_each(runs, "run_ms")),
            **{name: sum(run[name] or 0 for run in runs) for name in TOKENS},
            "cost": cost_of(runs),
        }
        for (agent, hour), runs in _grouped(ended, lambda run: (run["agent"], run["ended_at"] // HOUR * HOUR))
    ]


def _conversations(expected: ExpectedSilver) -> list[Row]:
    kept = [row for row in expected.messages.values() if row["status"] != "deleted"]
    spent = defaultdict[Any, list[Row]](list)
    for run in expected.runs.values():
        if run["ended_at"] is not None:
            spent[run["conversation_id"], run["conversation_started_at"]].append(run)
    by_key = _grouped(kept, lambda row: (row["conversation_id"], row["conversation_started_at"]))
    return [_conversation(key, rows, spent[key]) for key, rows in by_key]


def _conversation(key: tuple[str, int], messages: Sequence[Row], runs: Sequence[Row]) -> Row:
    ordered = sorted(messages, key=lambda row: int(row["id"]))
    first, (name, started_at) = ordered[0], key
    return {
        "conversation_id": name,
        "started_at": started_at,
        "updated_at": max(_each(ordered, "updated_at")),
        "first_id": first["id"],
        "team": next((team for team in _each(ordered, "conversation_team") if team is not None), None),
        **{column: first[column] for column in ("channel", "sender", "agent")},
        "message": first["message"][:200],
        "messages": len(ordered),
        "open": _how_many(ordered, "status", *OPEN),
        "dead": _how_many(ordered, "status", "dead"),
        "depth": max(_each(ordered, "hop")),
        "width": max(Counter(parent for parent in _each(ordered, "parent_message_id") if parent).values(), default=0),
        "agents": len(set(_each(ordered, "agent"))),
        "runs": len(runs),
        "critical_path_ms": None if _how_many(ordered, "status", *OPEN) else _critical_path(ordered),
        "run_ms": sum(took or 0 for took in _each(runs, "run_ms")),
        "tokens": sum(run[name] or 0 for run in runs for name in TOKENS),
        "cost": cost_of(runs),
    }


def _critical_path(ordered: Sequence[Row]) -> int:
    """The times of messages added along each chain; the longest of them."""
    lengths: dict[str, int] = {}
    for row in ordered:
        took = elapsed(row["created_at"], row["died_at"]) if row["status"] == "dead" else row["latency_ms"]
        lengths[row["message_id"]] = lengths.get(row["parent_message_id"], 0) + (took or 0)
    return max(lengths.values())


def _person(row: Row) -> str:
    name: str = row["sender"]
    return person_of(row["channel"], row["sender_id"]) or name


def _is_from_person(row: Row) -> bool:
    return row["channel"] not in PROGRAM and not row["message_id"].startswith("schedule_")


def _handoff_edges(expected: ExpectedSilver) -> list[Row]:
    handed = [row for row in expected.messages.values() if row["from_agent"] and row["channel"] != ROOM_CHANNEL]
    by_edge = _grouped(handed, lambda row: (row["from_agent"], row["agent"], day_of(row["created_at"])))
    return [
        {
            "from_agent": giver,
            "to_agent": taker,
            "date": day,
            "handoffs": len(rows),
            "completed": _how_many(rows, "status", "completed"),
            "dead": _how_many(rows, "status", "dead"),
            "wait_p50": percentile(_each(rows, "wait_ms"), 50),
            "latency_p50": percentile(_each(rows, "latency_ms"), 50),
            "latency_p95": percentile(_each(rows, "latency_ms"), 95),
        }
        for (giver, taker, day), rows in by_edge
    ]


def _channel_daily(expected: ExpectedSilver) -> list[Row]:
    from_people = [r for r in expected.messages.values() if r["from_agent"] is None and r["channel"] != ROOM_CHANNEL]
    sent = dict(_grouped(from_people, _channel_and_day))
    got = dict(_grouped(expected.responses.values(), _channel_and_day))
    return [
        {
            "channel": channel,
            "date": day,
            "messages": len(asked := sent.get((channel, day), [])),
            "people": len(
                {person_of(row["channel"], row["sender_id"]) or row["sender"] for row in asked if _is_from_person(row)}
            ),
            "completed": _how_many(asked, "status", "completed"),
            "dead": _how_many(asked, "status", "dead"),
            "latency_p50": percentile(_each(asked, "latency_ms"), 50),
            "latency_p95": percentile(_each(asked, "latency_ms"), 95),
            "responses": len(answers := got.get((channel, day), [])),
            "delivered": _how_many(answers, "status", "acked"),
            "undelivered": _how_many(answers, "status", "failed"),
            "delivery_p50": percentile((elapsed(row["created_at"], row["acked_at"]) for row in answers), 50),
        }
        for channel, day in sorted({*sent, *got})
    ]


def _dead_letters(expected: ExpectedSilver) -> list[Row]:
    died = sorted((row for row in expected.messages.values() if row["deaths"]), key=lambda row: int(row["id"]))
    lined = [row | {"line": (row["last_error"] or "").strip(" ").partition("\n")[0][:200]} for row in died]
    by_cause = _grouped(lined, lambda row: (row["agent"], fingerprint(row["line"]), day_of(row["created_at"])))
    return [
        {
            "agent": agent,
            "fingerprint": shape,
            "date": day,
            "error_kind": rows[0]["error_kind"],
            "error": rows[0]["line"],
            "messages": len(rows),
            "still_dead": _how_many(rows, "status", "dead"),
            "first_at": min(_each(rows, "died_at")),
            "last_at": max(_each(rows, "died_at")),
            "example_id": rows[0]["id"],
        }
        for (agent, shape, day), rows in by_cause
    ]


def _channel_and_day(row: Row) -> tuple[str, Any]:
    return row["channel"], day_of(row["created_at"])


def _grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> list[tuple[Any, list[Row]]]:
    groups: Mapping[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return sorted(groups.items())


def _each(rows: Iterable[Row], column: str) -> list[Any]:
    return [row[column] for row in rows]


def _how_many(rows: Iterable[Row], column: str, *values: str) -> int:
    return sum(row[column] in values for row in rows)
