"""Frames: how an event looks on the stream."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.sample_events import CLAIM, every_event, recorded
from tests.support.builders import a_message
from tinyagi.domain.events import (
    EVENT_TYPES,
    AgentProgress,
    LanePaused,
    MessageReceived,
    RecordedEvent,
    SettingsRejected,
)
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Message
from tinyagi.engine.live_progress import ProgressUpdate
from tinyagi.server.event_fields import _FIELD_NAMES, _PROJECTIONS, TEXT_CHARS
from tinyagi.server.event_frames import (
    ALIASES,
    connected_frame,
    frame_of,
    frame_of_progress,
    keep_alive_frame,
    reset_frame,
)

STORED = sorted(set(EVENT_TYPES) - {"agent_progress"})


def fields_of(raw: bytes) -> dict[str, str]:
    """The fields of one frame; fails unless there is exactly one."""
    assert raw.endswith(b"\n\n")
    lines = raw.decode().removesuffix("\n\n").split("\n")
    fields = dict(line.split(": ", 1) for line in lines)
    assert len(fields) == len(lines)
    return fields


def data_of(event_type: str, text: str = "hello") -> dict[str, Any]:
    frame = frame_of(recorded(every_event(text)[event_type]))
    data: dict[str, Any] = json.loads(fields_of(frame.canonical)["data"])
    return data


def test_every_event_type_has_its_frame_fields_defined() -> None:
    assert set(EVENT_TYPES) == {*_PROJECTIONS, *_FIELD_NAMES, AgentProgress.type}


@pytest.mark.parametrize("event_type", STORED)
def test_every_frame_has_a_type_a_time_and_its_ids(event_type: str) -> None:
    data = data_of(event_type)

    assert data["type"] == event_type
    assert data["timestamp"] == 99
    assert (data["messageId"], data["conversationId"], data["agentId"]) == ("web_1", "web_1", "coder")
    assert None not in data.values()
    assert not any("_" in name for name in data)


@pytest.mark.parametrize("event_type", STORED)
def test_long_texts_are_shortened_in_every_frame(event_type: str) -> None:
    frame = frame_of(recorded(every_event("x" * 1_000_000)[event_type]))

    assert len(frame.both) < 5 * TEXT_CHARS


@pytest.mark.parametrize("event_type", sorted(ALIASES))
def test_the_alias_comes_first_and_has_no_id(event_type: str) -> None:
    if event_type == "agent_progress":
        return
    events_by_type = {**every_event(), "message_received": MessageReceived(a_message()._asdict(), 1)}
    frame = frame_of(recorded(events_by_type[event_type], 7))

    assert frame.both.endswith(frame.canonical)
    alias, canonical = fields_of(frame.both.removesuffix(frame.canonical)), fields_of(frame.canonical)
    assert set(alias) == {"event", "data"}
    assert (canonical["id"], canonical["event"]) == ("7", event_type)
    assert alias["event"] == json.loads(alias["data"])["type"] == ALIASES[event_type]
    assert json.loads(alias["data"]) | {"type": event_type} == json.loads(canonical["data"])


@pytest.mark.parametrize(
    "message",
    [
        a_message(from_agent=AgentId("writer")),
        a_message(channel="chatroom"),
        a_message(channel="schedule", sender="Scheduler"),
        a_message(channel="heartbeat"),
        a_message(channel="board"),
    ],
    ids=["hand-off", "room post", "schedule", "heartbeat", "task"],
)
def test_only_messages_from_people_have_the_incoming_alias(message: Message) -> None:
    frame = frame_of(recorded(MessageReceived(message._asdict(), 1)))

    assert fields_of(frame.canonical)["event"] == "message_received"
    assert frame.both == frame.canonical


def test_an_event_without_an_alias_is_one_frame() -> None:
    frame = frame_of(recorded(LanePaused()))

    assert frame.both == frame.canonical


def test_a_message_is_shortened_to_its_first_characters() -> None:
    data = data_of("message_received", "m" * 500)

    assert data["message"] == "m" * 120
    assert (data["channel"], data["sender"], data["agent"]) == ("web", "Ada", "coder")


def test_an_answer_is_shortened_and_carries_its_length() -> None:
    done, ready = data_of("chain_step_done", "a" * 9_000), data_of("response_ready", "a" * 9_000)

    assert done["content"] == done["responseText"] == ready["responseText"] == "a" * TEXT_CHARS
    assert done["responseLength"] == ready["responseLength"] == 9_000
    assert (done["role"], done["isTeamMessage"], done["agentName"], done["durationMs"]) == (
        *("assistant", True, "coder", 1500),
    )
    assert done["usage"]["inputTokens"] == 10


def test_a_routing_frame_names_agent_and_team() -> None:
    data = data_of("agent_routed")

    assert (data["agentName"], data["isTeamRouted"], data["teamId"]) == ("Coder", True, "dev")


def test_a_hand_off_frame_concerns_both_agents() -> None:
    frame = frame_of(recorded(every_event()["chain_handoff"]))

    assert set(frame.agents) == {"coder", "writer"}
    assert data_of("chain_handoff")["toAgent"] == "writer"


def test_imported_rows_and_lost_sessions_hide_their_content() -> None:
    assert set(data_of("row_imported")) - {"timestamp", "messageId", "conversationId", "agentId"} == {
        *("type", "table", "id"),
    }
    assert "session-secret" not in json.dumps(data_of("session_lost"))


def test_an_unknown_event_type_is_sent_with_the_common_fields() -> None:
    later = RecordedEvent(9, "moon_landed", 3, "web_1", None, None, None, {"secret": "x"}, 99)

    assert json.loads(fields_of(frame_of(later).canonical)["data"]) == {
        "type": "moon_landed",
        "timestamp": 99,
        "messageId": "web_1",
    }


def test_live_text_has_no_id() -> None:
    progress = ProgressUpdate(a_message(id=3), AgentProgress(CLAIM, "thinking"))

    frame = frame_of_progress(progress, now=5, name_of=str.title)

    assert b"id: " not in frame.both
    data = json.loads(fields_of(frame.canonical)["data"])
    assert (data["text"], data["agentId"], data["claimId"], data["timestamp"]) == ("thinking", "coder", "claim_1", 5)
    assert data["agentName"] == "Coder"
    assert frame.both.startswith(b"event: agent:progress\n")


@given(st.text(st.characters(blacklist_categories=()), max_size=50))
def test_no_text_breaks_a_frame(text: str) -> None:
    event = RecordedEvent(1, SettingsRejected.type, 1, None, None, None, None, {"reason": text}, 99)

    raw = frame_of(event).canonical

    data = json.loads(fields_of(raw)["data"])
    assert len(raw.decode().splitlines()) == 4, "a client that knows more ends of lines sees the same lines"
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert data["reason"] == text


def test_the_first_frame_carries_the_resume_position() -> None:
    assert fields_of(connected_frame(41, 50, now=5)) == {
        "id": "41",
        "event": "connected",
        "data": '{"type":"connected","timestamp":5,"head":50}',
    }
    assert "id" not in fields_of(connected_frame(None, 50, now=5))


def test_a_reset_frame_carries_the_new_position() -> None:
    fields = fields_of(reset_frame(99, "pruned", 100, 200, now=5))

    assert (fields["id"], fields["event"]) == ("99", "reset")
    assert json.loads(fields["data"])["oldest"] == 100


def test_a_keep_alive_is_only_an_id() -> None:
    assert keep_alive_frame(12) == b"id: 12\n\n"
