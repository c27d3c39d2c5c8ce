"""Rows of silver and gold made from the event log in plain Python, for a lake without Spark."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from tests.support.log import Tables
from tinyagi.domain.events import RecordedEvent

Row = dict[str, Any]
ENDS = {
    "message_failed": "failed",
    "message_dead": "dead",
    "message_stopped": "stopped",
    "message_released": "released",
    "message_recovered": "recovered",
}


def day_of(instant: int) -> date:
    return datetime.fromtimestamp(instant / 1000, UTC).date()


def silver_rows(events: Sequence[RecordedEvent]) -> Mapping[str, list[Row]]:
    """The rows that a pipeline makes of these events, as far as an archive reads them."""
    tables, beside, runs = Tables(), defaultdict[int, Row](lambda: {"runs": 0}), dict[str, Row]()
    deleted: dict[int, Row] = {}
    for event in events:
        if event.type == "message_deleted":
            deleted[event.payload["id"]] = {**tables.messages[event.payload["id"]], "status": "deleted"}
        tables.apply(event)
        _note(beside, event)
        if event.payload.get("claim_id") is not None:
            _run(runs.setdefault(event.payload["claim_id"], {"results": [], "is_done": False}), event)
    # The lake does not rewrite a message when its conversation gets a team.
    teams = {e.payload["message"]["id"]: e.payload["message"]["conversation_team"] for e in events if _arrives(e)}
    messages = [
        row
        | beside[row["id"]]
        | {"conversation_team": teams[row["id"]], "date": day_of(row["conversation_started_at"])}
        for row in (*tables.messages.values(), *deleted.values())
    ]
    return {
        "silver.messages": messages,
        "silver.runs": list(runs.values()),
        "silver.agent_messages": [_dated(row) for row in tables.agent_messages.values()],
        "silver.chat_messages": [_dated(row) for row in tables.chat_messages.values()],
        "gold.conversations": _conversations(messages, runs.values()),
    }


def _arrives(event: RecordedEvent) -> bool:
    return event.type == "message_received"


def _dated(row: Row) -> Row:
    return row | {"date": day_of(row["created_at"])}


def _note(beside: dict[int, Row], event: RecordedEvent) -> None:
    """Columns of a message that the store does not have."""
    if event.type == "chain_step_start":
        for number in event.payload["ids"]:
            beside[number]["claim_id"] = event.payload["claim_id"]
            beside[number]["runs"] += 1
    elif event.type == "chain_step_done":
        beside[event.payload["ids"][0]]["answer"] = event.payload["content"] or None


def _run(run: Row, event: RecordedEvent) -> None:
    fact = event.payload
    if event.type == "chain_step_start":
        run |= {name: fact[name] for name in ("claim_id", "ids", "attempt", "from_agent", "wait_ms")}
        run |= {"agent": event.agent, "message_id": event.message_id, "started_at": event.created_at}
        run |= {"conversation_id": event.conversation_id, "conversation_started_at": event.conversation_started_at}
        run["date"] = day_of(event.conversation_started_at or 0)
        return
    run.setdefault("ended_at", event.created_at)
    run.setdefault("end_event_id", event.id)
    run |= fact.get("usage") or {}
    if event.type == "chain_step_done":
        run |= {"is_done": True, "told_ms": fact["duration_ms"], "team": fact["team_id"]}
    elif event.type in ENDS:
        result = {"outcome": ENDS[event.type], **{name: fact[name] for name in ("id", "attempt", "reason")}}
        run["results"].append(result)


def _conversations(messages: Sequence[Row], runs: Any) -> list[Row]:
    grouped = defaultdict[tuple[str, int], list[Row]](list)
    for row in sorted(messages, key=lambda row: int(row["id"])):
        if row["status"] != "deleted":
            grouped[row["conversation_id"], row["conversation_started_at"]].append(row)
    spent = defaultdict[tuple[str, int], list[Row]](list)
    for run in runs:
        spent[run["conversation_id"], run["conversation_started_at"]].append(run)
    return [_conversation(key, rows, spent[key]) for key, rows in grouped.items()]


def _conversation(key: tuple[str, int], messages: list[Row], runs: list[Row]) -> Row:
    first, (name, started_at) = messages[0], key
    tokens = [run.get(kind) or 0 for run in runs for kind in ("input_tokens", "output_tokens", "cache_tokens")]
    return {
        "conversation_id": name,
        "started_at": started_at,
        "date": day_of(started_at),
        "updated_at": max(row["updated_at"] for row in messages),
        "first_id": first["id"],
        "team": next((row["conversation_team"] for row in messages if row["conversation_team"]), None),
        **{column: first[column] for column in ("channel", "sender", "agent")},
        "message": first["message"][:200],
        "messages": len(messages),
        "open": sum(row["status"] in {"pending", "processing"} for row in messages),
        "dead": sum(row["status"] == "dead" for row in messages),
        "depth": max(row["hop"] for row in messages),
        "tokens": sum(tokens),
        "cost": sum(run.get("cost") or 0.0 for run in runs),
    }
