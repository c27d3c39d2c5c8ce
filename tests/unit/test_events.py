"""Events of the log: their names, that they are immutable, and that each can be written as JSON."""

from dataclasses import fields, is_dataclass
from typing import Final

import msgspec
import pytest

from tinyagi.domain import events
from tinyagi.domain.events import EVENT_TYPES, Event
from tinyagi.domain.ids import AgentId, ClaimId, MessageId, TeamId
from tinyagi.domain.limits import Usage

CONTRACT_NAMES: Final = (
    "message_received",
    "agent_routed",
    "chain_step_start",
    "agent_progress",
    "chain_step_done",
    "chain_handoff",
    "response_ready",
    "team_chain_start",
    "team_chain_end",
    "message_failed",
    "message_dead",
    "message_retried",
    "message_recovered",
    "message_deleted",
    "response_acked",
    "response_failed",
    "chat_posted",
    "message_stopped",
    "row_imported",
    "loop_stopped",
    "lane_held",
    "lane_paused",
    "lane_resumed",
    "settings_rejected",
    "processor_start",
    "processor_stop",
)

CODER, TESTER, DEV = AgentId("coder"), AgentId("tester"), TeamId("dev")
CLAIM, HELLO = ClaimId("claim_00000001"), MessageId("web_00000001")
USAGE: Final = Usage(input_tokens=1200, output_tokens=80, cost=0.02, provider="anthropic", model="sonnet")

EXAMPLES: Final[tuple[Event, ...]] = (
    events.MessageReceived(message={"id": 1, "message": "hello", "files": None}, history_id=1),
    events.AgentRouted(agent_name="Coder", provider="anthropic", model="sonnet", team_id=DEV),
    events.ChainStepStart(CLAIM, ids=(1,), message_ids=(HELLO,), attempt=1, from_agent=TESTER, wait_ms=3),
    events.AgentProgress(CLAIM, text="reading …"),
    events.ChainStepDone(
        CLAIM,
        ids=(1,),
        message_ids=(HELLO,),
        channel="web",
        sender="Ada",
        content="done",
        history_id=2,
        team_id=None,
        duration_ms=900,
        usage=USAGE,
    ),
    events.ChainHandoff(team_id=DEV, from_agent=CODER, to_agent=TESTER, message_id=HELLO),
    events.ResponseReady(response={"id": 1, "message": "done"}),
    events.TeamChainStart(team_id=DEV, agents=(CODER, TESTER), leader=CODER),
    events.TeamChainEnd(team_id=DEV, total_steps=2),
    events.MessageFailed(
        1, CLAIM, attempt=1, attempt_used=True, kind="message", reason="exit code 1", available_at=2_000, usage=USAGE
    ),
    events.MessageDead(1, CLAIM, attempt=5, kind="message", reason="exit code 1", usage=USAGE),
    events.MessageStopped(1, CLAIM, attempt=1, reason="stopped by Ada"),
    events.MessageReleased(1, CLAIM, attempt=1, reason="shutdown"),
    events.MessageRecovered(1, CLAIM, attempt=1, reason="the process that ran it is gone"),
    events.MessageRetried(1, message="hello again"),
    events.MessageMoved(1, to_agent=TESTER),
    events.MessageDeleted(1, reason="by Ada"),
    events.ResponseAcked(1),
    events.ResponseFailed(1, attempts=1, reason="chat is gone", available_at=2_000, final=False),
    events.ChatPosted(post={"id": 1, "team_id": "dev", "message": "hello"}),
    events.RowImported(table="messages", row={"id": 1, "message": "hello"}),
    events.LoopStopped(reason="more than 10 hand-offs in a row", limit=10, to_agents=(TESTER,)),
    events.BudgetReached(scope="agent:coder", reason="the daily budget is used up", until=86_400_000),
    events.SessionLost(provider="anthropic", session_id="5f0c"),
    events.SessionReset(by="Ada"),
    events.LaneHeld(hold_until=15_000, reason="usage limit", holds=1),
    events.LanePaused(),
    events.LaneResumed(),
    events.SettingsRejected(reason="port is not a number"),
    events.ProcessorStart(owner="host/boot/1/2"),
    events.ProcessorStop(owner="host/boot/1/2"),
)

every_event = pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: event.type)


def field_names(event: Event) -> list[str]:
    assert is_dataclass(event)
    return [field.name for field in fields(event)]


@pytest.mark.parametrize("name", CONTRACT_NAMES)
def test_every_event_of_the_contract_has_a_type(name: str) -> None:
    assert EVENT_TYPES[name].type == name


def test_event_names_are_unique_and_all_are_listed() -> None:
    defined = [
        value
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, Event) and value is not Event
    ]
    assert sorted(event.type for event in defined) == sorted(EVENT_TYPES)
    assert set(defined) == set(EVENT_TYPES.values())


def test_every_type_has_an_example_here() -> None:
    assert [type(example) for example in EXAMPLES] == list(EVENT_TYPES.values())


@every_event
def test_an_event_is_immutable(event: Event) -> None:
    for name in [*field_names(event), "type", "something_new"]:
        # Python 3.11 raises TypeError for a name that is no field of a frozen class with slots.
        with pytest.raises((AttributeError, TypeError)):
            setattr(event, name, "altered")


@every_event
def test_a_payload_is_a_json_object_of_the_events_fields(event: Event) -> None:
    payload = msgspec.json.decode(msgspec.json.encode(event), type=dict[str, object])
    assert list(payload) == field_names(event)


@every_event
def test_a_payload_reads_back_as_the_same_event(event: Event) -> None:
    assert msgspec.json.decode(msgspec.json.encode(event), type=type(event)) == event
