"""Which fields of each event type leave the daemon, under which names, and how long they may be."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tinyagi.domain.events import RecordedEvent, Row
from tinyagi.domain.responses import Role

PREVIEW_CHARS: Final = 120
"""Characters of an incoming message."""
TEXT_CHARS: Final = 4_000
"""Characters of an answer or a chat room post."""
REASON_CHARS: Final = 1_000

Fields = dict[str, object]


def projection(event: RecordedEvent, agent_name: str | None) -> Fields:
    """Return the fields that are particular to this event type; none for an unknown type."""
    project = _PROJECTIONS.get(event.type)
    return _listed_fields(event.type, event.payload) if project is None else project(agent_name, event.payload)


def without_empty(fields: Fields) -> Fields:
    """Drop fields without a value, and cut every text to TEXT_CHARS."""
    return {name: _cut(value, TEXT_CHARS) for name, value in fields.items() if value is not None}


def _cut(text: object, length: int) -> object:
    return text[:length] if isinstance(text, str) else text


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def _message_received(_: str | None, payload: Row) -> Fields:
    row: Row = payload.get("message", {})
    return {
        "channel": row.get("channel"),
        "sender": row.get("sender"),
        "agent": row.get("agent"),
        "message": _cut(row.get("message"), PREVIEW_CHARS),
        "fromAgent": row.get("from_agent"),
        "teamId": row.get("team"),
    }


def _agent_routed(_: str | None, payload: Row) -> Fields:
    team = payload.get("team_id")
    return {
        "agentName": payload.get("agent_name"),
        "provider": payload.get("provider"),
        "model": payload.get("model"),
        "isTeamRouted": team is not None,
        "teamId": team,
    }


def _chain_step_start(agent_name: str | None, payload: Row) -> Fields:
    return {
        "agentName": agent_name,
        "fromAgent": payload.get("from_agent"),
        "attempt": payload.get("attempt"),
        "claimId": payload.get("claim_id"),
        "messageIds": payload.get("message_ids"),
        "waitMs": payload.get("wait_ms"),
    }


def _chain_step_done(agent_name: str | None, payload: Row) -> Fields:
    content, team = payload.get("content", ""), payload.get("team_id")
    text = _cut(content, TEXT_CHARS)
    return {
        "agentName": agent_name,
        "role": Role.ASSISTANT,
        "channel": payload.get("channel"),
        "sender": payload.get("sender"),
        "content": text,
        "responseText": text,
        "responseLength": len(content),
        "isTeamMessage": team is not None,
        "teamId": team,
        "durationMs": payload.get("duration_ms"),
        "usage": _usage(payload.get("usage")),
        "claimId": payload.get("claim_id"),
        "messageIds": payload.get("message_ids"),
    }


def _chain_handoff(_: str | None, payload: Row) -> Fields:
    return {
        "teamId": payload.get("team_id"),
        "fromAgent": payload.get("from_agent"),
        "toAgent": payload.get("to_agent"),
        "handedMessageId": payload.get("message_id"),
    }


def _response_ready(_: str | None, payload: Row) -> Fields:
    row: Row = payload.get("response", {})
    text = row.get("message", "")
    return {
        "id": row.get("id"),
        "channel": row.get("channel"),
        "sender": row.get("sender"),
        "agentId": row.get("agent"),
        "responseText": _cut(text, TEXT_CHARS),
        "responseLength": len(text),
    }


def _chat_posted(_: str | None, payload: Row) -> Fields:
    row: Row = payload.get("post", {})
    return {
        "id": row.get("id"),
        "teamId": row.get("team_id"),
        "fromAgent": row.get("from_agent"),
        "message": _cut(row.get("message"), TEXT_CHARS),
    }


def _message_retried(_: str | None, payload: Row) -> Fields:
    return {"id": payload.get("id"), "message": _cut(payload.get("message"), PREVIEW_CHARS)}


def _row_imported(_: str | None, payload: Row) -> Fields:
    row: Row = payload.get("row", {})
    return {"table": payload.get("table"), "id": row.get("id")}


def _listed_fields(event_type: str, payload: Row) -> Fields:
    fields: Fields = {name: _cut(payload.get(field), REASON_CHARS) for field, name in _FIELD_NAMES.get(event_type, ())}
    if "usage" in fields:
        fields["usage"] = _usage(fields["usage"])
    return fields


def _usage(usage: Any) -> Fields | None:
    return None if usage is None else {_camel(name): value for name, value in usage.items()}


_PROJECTIONS: Final[Mapping[str, Callable[[str | None, Row], Fields]]] = {
    "message_received": _message_received,
    "agent_routed": _agent_routed,
    "chain_step_start": _chain_step_start,
    "chain_step_done": _chain_step_done,
    "chain_handoff": _chain_handoff,
    "response_ready": _response_ready,
    "chat_posted": _chat_posted,
    "message_retried": _message_retried,
    "row_imported": _row_imported,
}

# Small payloads go out unchanged. Each field is named here, so that a field added later does not leak.
_FIELD_NAMES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    event_type: tuple((field, _camel(field)) for field in names.split())
    for event_type, names in {
        "team_chain_start": "team_id agents leader",
        "team_chain_end": "team_id total_steps",
        "message_failed": "id claim_id attempt attempt_used kind reason available_at usage",
        "message_dead": "id claim_id attempt kind reason usage",
        "message_stopped": "id claim_id attempt reason",
        "message_released": "id claim_id attempt reason",
        "message_recovered": "id claim_id attempt reason",
        "message_moved": "id to_agent",
        "message_deleted": "id reason",
        "response_acked": "id",
        "response_failed": "id attempts reason available_at final",
        "loop_stopped": "reason limit to_agents",
        "budget_reached": "scope reason until",
        "session_lost": "provider",
        "session_reset": "by",
        "lane_held": "hold_until reason holds cause",
        "lane_paused": "",
        "lane_resumed": "",
        "settings_rejected": "reason",
        "processor_start": "owner",
        "processor_stop": "owner",
    }.items()
}
