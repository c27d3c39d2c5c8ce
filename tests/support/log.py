"""Reads the whole event log, and rebuilds every table from it as an archive would."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from tinyagi.domain.events import RecordedEvent
from tinyagi.domain.messages import ROOM_PRIORITY
from tinyagi.store.event_log import EventLog

Rows = dict[int, dict[str, Any]]


async def read_all(log: EventLog, after: int = 0) -> list[RecordedEvent]:
    events: list[RecordedEvent] = []
    while page := await log.read_after(events[-1].id if events else after):
        events += page
    return events


async def types_of(log: EventLog) -> list[str]:
    return [event.type for event in await read_all(log)]


@dataclass
class Tables:
    """Tables rebuilt from the events: keyed by row id, columns by name."""

    messages: Rows = field(default_factory=dict)
    responses: Rows = field(default_factory=dict)
    chat_messages: Rows = field(default_factory=dict)
    agent_messages: Rows = field(default_factory=dict)
    lanes: dict[str, dict[str, Any]] = field(default_factory=lambda: defaultdict(_lane))
    totals: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def apply(self, event: RecordedEvent) -> None:
        getattr(self, f"_{event.type}", self._no_row)(event, event.payload)

    def open_in(self, conversation_id: str) -> int:
        return sum(
            row["conversation_id"] == conversation_id and row["status"] in {"pending", "processing"}
            for row in self.messages.values()
        )

    def _no_row(self, event: RecordedEvent, fact: Any) -> None:
        """Events that change no row."""

    def _message_received(self, event: RecordedEvent, fact: Any) -> None:
        row = fact["message"]
        self.messages[row["id"]] = dict(row)
        # A root starts its conversation, also when an earlier one of that name is pruned.
        is_root = row["conversation_id"] == row["message_id"]
        self.totals[row["conversation_id"]] = 1 if is_root else self.totals[row["conversation_id"]] + 1
        self._history(fact["history_id"], event, "user", row["channel"], row["sender"], row["message"])

    def _row_imported(self, event: RecordedEvent, fact: Any) -> None:
        rows: Rows = getattr(self, fact["table"])
        rows[fact["row"]["id"]] = dict(fact["row"])
        if fact["table"] == "messages" and fact["row"]["status"] != "pending":
            self.totals[fact["row"]["conversation_id"]] += 1

    def _chain_step_start(self, event: RecordedEvent, fact: Any) -> None:
        for number in fact["ids"]:
            change = {"claim_id": fact["claim_id"], "started_at": event.created_at}
            self._change(number, event, status="processing", **change)

    def _chain_step_done(self, event: RecordedEvent, fact: Any) -> None:
        for number in fact["ids"]:
            self._change(number, event, status="completed", claim_id=None, answered_by=fact["message_ids"][0])
        self._history(fact["history_id"], event, "assistant", fact["channel"], event.agent, fact["content"])
        self.lanes[event.agent or ""] |= {"hold_until": 0, "hold_reason": None, "hold_cause": None, "holds": 0}

    def _message_failed(self, event: RecordedEvent, fact: Any) -> None:
        change: dict[str, Any] = {"available_at": fact["available_at"]}
        if fact["attempt_used"]:
            change |= {"retry_count": fact["attempt"], "last_error": fact["reason"]}
            change |= self._tried(fact["id"])
        self._change(fact["id"], event, status="pending", claim_id=None, **change)

    def _message_dead(self, event: RecordedEvent, fact: Any) -> None:
        change = {"retry_count": fact["attempt"], "last_error": fact["reason"]}
        # Without a claim there was no run that could have failed.
        tried = {} if fact["claim_id"] is None else self._tried(fact["id"])
        self._change(fact["id"], event, status="dead", claim_id=None, **change, **tried)

    def _message_stopped(self, event: RecordedEvent, fact: Any) -> None:
        self._change(fact["id"], event, status="dead", claim_id=None, last_error=fact["reason"])

    def _message_released(self, event: RecordedEvent, fact: Any) -> None:
        self._change(fact["id"], event, status="pending", claim_id=None)

    def _message_recovered(self, event: RecordedEvent, fact: Any) -> None:
        change = {"retry_count": fact["attempt"], "last_error": fact["reason"], "available_at": 0}
        change |= self._tried(fact["id"])
        self._change(fact["id"], event, status="pending", claim_id=None, **change)

    def _message_retried(self, event: RecordedEvent, fact: Any) -> None:
        change = {"retry_count": 0, "available_at": 0, "answered_by": None, "message": fact["message"]}
        self._change(fact["id"], event, status="pending", **change, **self._tried(fact["id"]))

    def _message_moved(self, event: RecordedEvent, fact: Any) -> None:
        self._change(fact["id"], event, agent=fact["to_agent"])

    def _message_deleted(self, event: RecordedEvent, fact: Any) -> None:
        del self.messages[fact["id"]]

    def _response_ready(self, event: RecordedEvent, fact: Any) -> None:
        self.responses[fact["response"]["id"]] = dict(fact["response"])

    def _response_acked(self, event: RecordedEvent, fact: Any) -> None:
        change = {"status": "acked", "acked_at": event.created_at, "last_event_id": event.id}
        self.responses[fact["id"]] |= change

    def _response_failed(self, event: RecordedEvent, fact: Any) -> None:
        change = {"status": "failed" if fact["final"] else "pending", "last_error": fact["reason"]}
        change |= {"attempts": fact["attempts"], "available_at": fact["available_at"], "last_event_id": event.id}
        self.responses[fact["id"]] |= change

    def _chat_posted(self, event: RecordedEvent, fact: Any) -> None:
        self.chat_messages[fact["post"]["id"]] = dict(fact["post"])

    def _team_chain_start(self, event: RecordedEvent, fact: Any) -> None:
        for row in self.messages.values():
            if row["conversation_id"] == event.conversation_id and row["conversation_team"] is None:
                row["conversation_team"] = fact["team_id"]

    def _lane_held(self, event: RecordedEvent, fact: Any) -> None:
        is_held = bool(fact["hold_until"])
        change = {"hold_until": fact["hold_until"], "holds": fact["holds"]}
        change |= {f"hold_{name}": fact[name] if is_held else None for name in ("reason", "cause")}
        self.lanes[event.agent or ""] |= change

    def _lane_paused(self, event: RecordedEvent, fact: Any) -> None:
        self.lanes[event.agent or ""]["paused"] = True

    def _lane_resumed(self, event: RecordedEvent, fact: Any) -> None:
        self.lanes[event.agent or ""] |= _lane()

    def _tried(self, number: int) -> dict[str, Any]:
        """A passive room post starts its next run itself."""
        return {"priority": max(self.messages[number]["priority"], ROOM_PRIORITY)}

    def _change(self, number: int, event: RecordedEvent, **columns: Any) -> None:
        self.messages[number] |= {**columns, "updated_at": event.created_at, "last_event_id": event.id}

    def _history(self, number: int, event: RecordedEvent, role: str, channel: str, sender: Any, content: str) -> None:
        self.agent_messages[number] = {
            "id": number,
            "agent_id": event.agent,
            "role": role,
            "channel": channel,
            "sender": sender,
            "message_id": event.message_id,
            "content": content,
            "created_at": event.created_at,
            "from_agent": event.payload["message"].get("from_agent") if role == "user" else None,
        }


def _lane() -> dict[str, Any]:
    return {"paused": False, "hold_until": 0, "hold_reason": None, "hold_cause": None, "holds": 0}
