"""Frames: what a fact looks like on the stream."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.facts import CLAIM, every_fact, recorded
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
    """The lines of one frame; fails when it is not exactly one."""
    assert raw.endswith(b"\n\n")
    lines = raw.decode().removesuffix("\n\n").split("\n")
    fields = dict(line.split(": ", 1) for line in lines)
    assert len(fields) == len(lines)
    return fields


def data_of(event_type: str, text: str = "hello") -> dict[str, Any]:
    frame = frame_of(recorded(every_fact(text)[event_type]))
    data: dict[str, Any] = json.loads(fields_of(frame.canonical)["data"])
    return data


def test_every_type_of_the_log_has_its_fields_decided() -> None:
    assert set(EVENT_TYPES) == {*_PROJECTIONS, *_FIELD_NAMES, AgentProgress.type}


@pytest.mark.parametrize("event_type", STORED)
def test_every_fact_says_what_it_is_when_and_whose(event_type: str) -> None:
    data = data_of(event_type)

    assert data["type"] == event_type
    assert data["timestamp"] == 99
    assert (data["messageId"], data["conversationId"], data["agentId"]) == ("web_1", "web_1", "coder")
    assert None not in data.values()
    assert not any("_" in name for name in data)


@pytest.mark.parametrize("event_type", STORED)
def test_no_fact_is_sent_with_a_text_without_end(event_type: str) -> None:
    frame = frame_of(recorded(every_fact("x" * 1_000_000)[event_type]))

    assert len(frame.both) < 5 * TEXT_CHARS


@pytest.mark.parametrize("event_type", sorted(ALIASES))
def test_the_alias_goes_first_and_without_an_id(event_type: str) -> None:
    if event_type == "agent_progress":
        return
    facts = {**every_fact(), "message_received": MessageReceived(a_message()._asdict(), 1)}
    frame = frame_of(recorded(facts[event_type], 7))

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
def test_only_messages_of_people_have_the_alias_of_an_incoming_message(message: Message) -> None:
    frame = frame_of(recorded(MessageReceived(message._asdict(), 1)))

    assert fields_of(frame.canonical)["event"] == "message_received"
    assert frame.both == frame.canonical


def test_a_fact_without_an_alias_is_one_frame() -> None:
    frame = frame_of(recorded(LanePaused()))

    assert frame.both == frame.canonical


def test_a_message_is_told_by_its_first_characters() -> None:
    data = data_of("message_received", "m" * 500)

    assert data["message"] == "m" * 120
    assert (data["channel"], data["sender"], data["agent"]) == ("web", "Ada", "coder")


def test_an_answer_is_shortened_and_its_length_is_told() -> None:
    done, ready = data_of("chain_step_done", "a" * 9_000), data_of("response_ready", "a" * 9_000)

    assert done["content"] == done["responseText"] == ready["responseText"] == "a" * TEXT_CHARS
    assert done["responseLength"] == ready["responseLength"] == 9_000
    assert (done["role"], done["isTeamMessage"], done["agentName"], done["durationMs"]) == (
        *("assistant", True, "coder", 1500),
    )
    assert done["usage"]["inputTokens"] == 10


def test_routing_tells_the_name_and_the_team() -> None:
    data = data_of("agent_routed")

    assert (data["agentName"], data["isTeamRouted"], data["teamId"]) == ("Coder", True, "dev")


def test_a_hand_off_concerns_both_agents() -> None:
    frame = frame_of(recorded(every_fact()["chain_handoff"]))

    assert set(frame.agents) == {"coder", "writer"}
    assert data_of("chain_handoff")["toAgent"] == "writer"


def test_an_imported_row_and_a_lost_session_tell_nothing_of_their_content() -> None:
    assert set(data_of("row_imported")) - {"timestamp", "messageId", "conversationId", "agentId"} == {
        *("type", "table", "id"),
    }
    assert "session-secret" not in json.dumps(data_of("session_lost"))


def test_a_fact_of_a_later_version_is_passed_on_with_what_every_fact_has() -> None:
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


def test_the_first_frame_says_where_a_reader_resumes_that_saw_nothing_else() -> None:
    assert fields_of(connected_frame(41, 50, now=5)) == {
        "id": "41",
        "event": "connected",
        "data": '{"type":"connected","timestamp":5,"head":50}',
    }
    assert "id" not in fields_of(connected_frame(None, 50, now=5))


def test_a_reset_has_the_id_from_which_nothing_is_missing() -> None:
    fields = fields_of(reset_frame(99, "pruned", 100, 200, now=5))

    assert (fields["id"], fields["event"]) == ("99", "reset")
    assert json.loads(fields["data"])["oldest"] == 100


def test_a_keep_alive_is_an_id_and_nothing_else() -> None:
    assert keep_alive_frame(12) == b"id: 12\n\n"
