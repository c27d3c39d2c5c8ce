"""Events that TinyAGI would never record: some are invalid, some are valid with wrong clocks."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.pipeline.support import MONDAY
from tinyagi.domain.events import RecordedEvent

REASONS: Final = {
    "unknown type": "unknown type",
    "half a JSON": "payload is no JSON of this type",
    "a list": "payload is no JSON of this type",
    "a text for a number": "payload is no JSON of this type",
    "nothing": "payload is no JSON of this type",
    "start without a claim": "without claim_id",
    "done without messages": "without ids",
    "start of a message and of nothing": "a gap in ids",
    "done without a message's name": "a gap in message_ids",
    "moved to nobody": "without to_agent",
    "message without an id": "message has no id",
    "message that is no row": "message has no id",
    "message whose id is half a number": "message has no id",
    "row of a foreign table": "row of an unknown table",
    "negative duration": "ended before it began",
    "negative wait": "negative wait",
}
"""The reason why each is quarantined."""
BACKWARD: Final = "clock went back: end"
"""A valid event without a usable duration."""
PAST: Final = "from 1970"
FUTURE: Final = "from the year 30000"
FIRST: Final = "before all calendars"
LAST: Final = "after all calendars"
WHEN: Final = {PAST: 5, FUTURE: 900_000_000_000_000, FIRST: -(2**62), LAST: 2**62}
FIRST_UNKNOWN: Final = 9_000
"""`messages.id` of messages that only these events know; each has its own from here on."""

Raw = Mapping[str, Any]


def bad_events(events: Sequence[RecordedEvent]) -> dict[str, Raw]:
    """By label; they refer to a known message and must not change it."""
    known = next(event for event in events if event.type == "message_received").payload["message"]
    number, at = known["id"], MONDAY + 3 * 86_400_000
    run = {
        "claim_id": "odd",
        "ids": [number],
        "message_ids": ["m"],
        "history_id": 9_900,
        "content": "odd",
        "attempt": 1,
    }
    back = run | {"claim_id": "backward", "ids": [FIRST_UNKNOWN + 3], "channel": "web", "team_id": None, "usage": None}
    plain: dict[str, tuple[str, object]] = {
        "unknown type": ("time_travelled", {"id": number, "claim_id": "odd"}),
        "half a JSON": ("message_dead", f'{{"id": {number}, "reas'),
        "a list": ("message_dead", [number]),
        "a text for a number": ("message_deleted", {"id": "seven"}),
        "nothing": ("message_deleted", ""),
        "start without a claim": ("chain_step_start", {"ids": [number], "wait_ms": 1}),
        "done without messages": ("chain_step_done", {name: run[name] for name in run if name != "ids"}),
        "start of a message and of nothing": ("chain_step_start", run | {"ids": [number, None], "wait_ms": 1}),
        "done without a message's name": ("chain_step_done", run | {"message_ids": [None], "duration_ms": 1}),
        "moved to nobody": ("message_moved", {"id": number}),
        "message without an id": ("message_received", {"message": {"message": "odd"}, "history_id": 9_901}),
        "message that is no row": ("message_received", {"message": "odd", "history_id": 9_902}),
        "message whose id is half a number": (
            "message_received",
            {"message": {"id": number + 0.5, "message": "odd"}, "history_id": 9_904},
        ),
        "row of a foreign table": ("row_imported", {"table": "secrets", "row": {"id": 1}}),
        "negative duration": ("chain_step_done", run | {"duration_ms": -5}),
        "negative wait": ("chain_step_start", run | {"wait_ms": -5}),
    }
    odd: dict[str, Raw] = {label: _event(kind, payload, at) for label, (kind, payload) in plain.items()}
    odd[PAST] = _arrival(known, FIRST_UNKNOWN + 1, WHEN[PAST])
    odd["clock went back: message"] = _arrival(known, FIRST_UNKNOWN + 3, at)
    beginning = {"wait_ms": 1000, "from_agent": None}
    odd["clock went back: start"] = _event(
        "chain_step_start", back | beginning, at + 1_000, f"odd{FIRST_UNKNOWN + 3}", at
    )
    odd[BACKWARD] = _event("chain_step_done", back | {"duration_ms": 0}, at - 60_000, f"odd{FIRST_UNKNOWN + 3}", at)
    odd[FIRST] = _arrival(known, FIRST_UNKNOWN + 4, WHEN[FIRST])
    odd[LAST] = _arrival(known, FIRST_UNKNOWN + 5, WHEN[LAST])
    # Last, so that the newest event of the lake is from the year 30000.
    odd[FUTURE] = _arrival(known, FIRST_UNKNOWN + 2, WHEN[FUTURE])
    return odd


def _arrival(known: Raw, number: int, at: int) -> Raw:
    name = f"odd{number}"
    row = {**known, "id": number, "message_id": name, "conversation_id": name, "message": f"odd {number}"}
    row |= {"conversation_started_at": at, "created_at": at, "updated_at": at, "status": "pending", "agent": "coder"}
    row |= dict.fromkeys(("parent_message_id", "from_agent", "conversation_team", "team", "answered_by", "started_at"))
    del row["last_event_id"]
    return _event("message_received", {"message": row, "history_id": number}, at, name, at)


def _event(kind: str, payload: object, at: int, name: str | None = None, began: int | None = None) -> Raw:
    return {
        "type": kind,
        "message_id": name,
        "conversation_id": name,
        "conversation_started_at": began,
        "agent": "coder",
        "payload": payload if isinstance(payload, str) else json.dumps(payload),
        "created_at": at,
    }
