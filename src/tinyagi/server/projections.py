"""Which fields of a fact go over the stream, under which names, and how long they are."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tinyagi.domain.events import RecordedEvent, Row
from tinyagi.domain.responses import Role

GLIMPSE: Final = 120
"""Characters of a message that somebody has sent."""
SHOWN: Final = 4_000
"""Characters of an answer or of a line in a room."""
REASON: Final = 1_000

Fields = dict[str, object]


def projection(event: RecordedEvent) -> Fields:
    """What a fact tells besides what every fact has; nothing of a type that a later version has added."""
    project = _OWN.get(event.type)
    return _plain(event.type, event.payload) if project is None else project(event, event.payload)


def shown(fields: Fields) -> Fields:
    """The fields that have a value, none of them longer than anything may be."""
    return {name: _cut(value, SHOWN) for name, value in fields.items() if value is not None}


def _cut(text: object, longest: int) -> object:
    return text[:longest] if isinstance(text, str) else text


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))


def _message_received(_: RecordedEvent, fact: Row) -> Fields:
    row: Row = fact.get("message", {})
    return {
        "channel": row.get("channel"),
        "sender": row.get("sender"),
        "agent": row.get("agent"),
        "message": _cut(row.get("message"), GLIMPSE),
        "fromAgent": row.get("from_agent"),
        "teamId": row.get("team"),
    }


def _agent_routed(_: RecordedEvent, fact: Row) -> Fields:
    team = fact.get("team_id")
    return {
        "agentName": fact.get("agent_name"),
        "provider": fact.get("provider"),
        "model": fact.get("model"),
        "isTeamRouted": team is not None,
        "teamId": team,
    }


def _chain_step_start(event: RecordedEvent, fact: Row) -> Fields:
    return {
        "agentName": event.agent,
        "fromAgent": fact.get("from_agent"),
        "attempt": fact.get("attempt"),
        "claimId": fact.get("claim_id"),
        "messageIds": fact.get("message_ids"),
        "waitMs": fact.get("wait_ms"),
    }


def _chain_step_done(event: RecordedEvent, fact: Row) -> Fields:
    content, team = fact.get("content", ""), fact.get("team_id")
    text = _cut(content, SHOWN)
    return {
        "agentName": event.agent,
        "role": Role.ASSISTANT,
        "channel": fact.get("channel"),
        "sender": fact.get("sender"),
        "content": text,
        "responseText": text,
        "responseLength": len(content),
        "isTeamMessage": team is not None,
        "teamId": team,
        "durationMs": fact.get("duration_ms"),
        "usage": _usage(fact.get("usage")),
        "claimId": fact.get("claim_id"),
        "messageIds": fact.get("message_ids"),
    }


def _chain_handoff(_: RecordedEvent, fact: Row) -> Fields:
    return {
        "teamId": fact.get("team_id"),
        "fromAgent": fact.get("from_agent"),
        "toAgent": fact.get("to_agent"),
        "handedMessageId": fact.get("message_id"),
    }


def _response_ready(_: RecordedEvent, fact: Row) -> Fields:
    row: Row = fact.get("response", {})
    text = row.get("message", "")
    return {
        "id": row.get("id"),
        "channel": row.get("channel"),
        "sender": row.get("sender"),
        "agentId": row.get("agent"),
        "responseText": _cut(text, SHOWN),
        "responseLength": len(text),
    }


def _chat_posted(_: RecordedEvent, fact: Row) -> Fields:
    row: Row = fact.get("post", {})
    return {
        "id": row.get("id"),
        "teamId": row.get("team_id"),
        "fromAgent": row.get("from_agent"),
        "message": _cut(row.get("message"), SHOWN),
    }


def _message_retried(_: RecordedEvent, fact: Row) -> Fields:
    return {"id": fact.get("id"), "message": _cut(fact.get("message"), GLIMPSE)}


def _row_imported(_: RecordedEvent, fact: Row) -> Fields:
    row: Row = fact.get("row", {})
    return {"table": fact.get("table"), "id": row.get("id")}


def _plain(event_type: str, fact: Row) -> Fields:
    fields: Fields = {name: _cut(fact.get(field), REASON) for field, name in _PLAIN.get(event_type, ())}
    if "usage" in fields:
        fields["usage"] = _usage(fields["usage"])
    return fields


def _usage(usage: Any) -> Fields | None:
    return None if usage is None else {_camel(name): value for name, value in usage.items()}


_OWN: Final[Mapping[str, Callable[[RecordedEvent, Row], Fields]]] = {
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

# Small payloads go as they are. Each is named here, so that what a fact gains later does not go out unseen.
_PLAIN: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
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
        "lane_held": "hold_until reason holds",
        "lane_paused": "",
        "lane_resumed": "",
        "settings_rejected": "reason",
        "processor_start": "owner",
        "processor_stop": "owner",
    }.items()
}
