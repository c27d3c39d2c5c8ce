"""Conversations as trees: built from messages, and over HTTP."""

from urllib.parse import quote

import pytest

from tests.server.conftest import Premises
from tests.support.builders import a_message
from tests.support.puppet import Gate, failing, in_turn
from tinyagi.api.conversations import MAX_DEPTH, Span, Trace, trace_of
from tinyagi.domain.ids import AgentId, ConversationId, MessageId
from tinyagi.domain.limits import Usage
from tinyagi.domain.messages import Status
from tinyagi.domain.traces import Attempt, TracedMessage

CONVERSATION = ConversationId("web_1")


def traced(
    number: int,
    parent: int | None = None,
    *,
    status: Status = Status.COMPLETED,
    attempts: tuple[Attempt, ...] = (),
    answer: str | None = None,
    hop: int = 0,
) -> TracedMessage:
    message = a_message(
        id=number,
        message_id=MessageId(f"m{number}"),
        conversation_id=CONVERSATION,
        parent_message_id=None if parent is None else MessageId(f"m{parent}"),
        status=status,
        hop=hop,
        created_at=1_000 + number,
        updated_at=2_000 + number,
    )
    return TracedMessage(message, attempts, answer)


def a_run(claim: str, number: int = 1, *, ended: int | None = 5_500, usage: Usage | None = None) -> Attempt:
    outcome = "running" if ended is None else "chain_step_done"
    return Attempt(claim, number, 5_000, 40, ended, outcome, None, usage)


def shape(spans: tuple[Span, ...]) -> list[object]:
    """Ids with the shapes of their children."""
    return [(span.id, shape(span.children)) if span.children else span.id for span in spans]


def test_hand_offs_are_children_of_their_message_in_order() -> None:
    trace = trace_of([traced(1), traced(2, 1), traced(3, 1), traced(4, 2)])

    assert shape(trace.spans) == [(1, [(2, [4]), 3])]


def test_parts_of_a_fanned_out_message_are_siblings() -> None:
    trace = trace_of([traced(1), traced(2), traced(3, 2)])

    assert shape(trace.spans) == [1, (2, [3])]


def test_a_message_without_its_parent_becomes_a_root() -> None:
    trace = trace_of([traced(4, 2), traced(5, 4), traced(6, 3)])

    assert shape(trace.spans) == [(4, [5]), 6]
    assert trace.spans[0].parent_message_id == "m2"


def test_a_cycle_of_parents_loses_no_message() -> None:
    trace = trace_of([traced(1, 2), traced(2, 1), traced(3, 3)])

    assert shape(trace.spans) == [(1, [2]), 3]


def test_a_long_chain_stays_within_the_depth_limit() -> None:
    long = 1_000
    trace = trace_of([traced(1), *(traced(number, number - 1) for number in range(2, long + 1))])

    def depth(spans: tuple[Span, ...]) -> int:
        return 1 + max((depth(span.children) for span in spans), default=-1)

    def count(spans: tuple[Span, ...]) -> int:
        return len(spans) + sum(count(span.children) for span in spans)

    assert depth(trace.spans) == MAX_DEPTH
    assert count(trace.spans) == long
    assert Trace.model_validate_json(trace.model_dump_json(by_alias=True)) == trace


def test_a_span_has_its_wait_its_runs_and_their_usage() -> None:
    failed = Attempt("c1", 1, 5_000, 40, 5_200, "message_failed", "boom", Usage(10, 5, None, 0.25, "api", "small"))
    done = a_run("c2", 2, usage=Usage(20, 5, 100, None, "api", "large"))
    (span,) = trace_of([traced(1, attempts=(failed, done), answer="it works")]).spans

    assert (span.queue_wait_ms, span.answer) == (40, "it works")
    assert (span.provider, span.model, span.tokens, span.cost) == ("api", "large", 140, 0.25)
    assert [(run.number, run.outcome, run.reason, run.duration_ms) for run in span.attempts] == [
        (1, "message_failed", "boom", 200),
        (2, "chain_step_done", None, 500),
    ]
    assert (span.attempts[0].input_tokens, span.attempts[0].model) == (10, "small")


def test_a_pending_message_has_no_wait_and_no_cost() -> None:
    (span,) = trace_of([traced(1, status=Status.PENDING)]).spans

    assert (span.queue_wait_ms, span.provider, span.tokens, span.cost) == (None, None, 0, 0)


def test_a_running_attempt_has_no_end() -> None:
    (span,) = trace_of([traced(1, status=Status.PROCESSING, attempts=(a_run("c1", ended=None),))]).spans

    (run,) = span.attempts
    assert (run.outcome, run.ended_at, run.duration_ms) == ("running", None, None)


def test_a_run_of_several_messages_is_counted_once() -> None:
    shared = a_run("c1", usage=Usage(10, 10, cost=1.0)), a_run("c1")
    trace = trace_of([traced(1, attempts=shared[:1]), traced(2, attempts=shared[1:])])

    assert (trace.tokens, trace.cost) == (20, 1.0)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([Status.COMPLETED, Status.COMPLETED], "done"),
        ([Status.COMPLETED, Status.PENDING], "open"),
        ([Status.DEAD, Status.PROCESSING], "open"),
        ([Status.COMPLETED, Status.DEAD], "dead"),
    ],
)
def test_a_conversations_status_follows_its_messages(statuses: list[Status], expected: str) -> None:
    trace = trace_of([traced(number, status=status) for number, status in enumerate(statuses, 1)])

    assert trace.status == expected
    assert (trace.messages, trace.updated_at) == (2, 2_002)


async def test_a_team_conversation_is_shown_as_a_tree(premises: Premises) -> None:
    premises.puppet.plays["coder"] = in_turn("Over to you. [@writer: write it down]", "Thanks.")
    sent = await premises.send("@dev build it", sender="Ada", channel="web")
    await premises.drained()

    trace = (await premises.http.get(f"/api/traces/{sent.conversation_id}")).json()

    assert (trace["conversationId"], trace["team"], trace["status"]) == (sent.conversation_id, "dev", "done")
    assert (trace["messages"], trace["hops"], trace["tokens"]) == (2, 1, 4)
    (root,) = trace["spans"]
    assert (root["messageId"], root["agent"], root["text"]) == (sent.message_id, "coder", "@dev build it")
    assert (root["status"], root["provider"], root["answer"]) == (
        "completed",
        "puppet",
        "Over to you. [@writer: write it down]",
    )
    (run,) = root["attempts"]
    assert (run["number"], run["outcome"]) == (1, "chain_step_done")
    assert run["startedAt"] <= run["endedAt"]
    (child,) = root["children"]
    assert (child["agent"], child["fromAgent"], child["hop"]) == ("writer", "coder", 1)
    assert (child["parentMessageId"], child["children"]) == (sent.message_id, [])


async def test_a_running_attempt_is_in_the_trace(premises: Premises) -> None:
    gate = premises.puppet.plays["coder"] = Gate()
    sent = await premises.send("@coder build it")
    await gate.reached.wait()

    trace = (await premises.http.get(f"/api/traces/{sent.conversation_id}")).json()

    assert trace["status"] == "open"
    assert trace["spans"][0]["attempts"][0]["outcome"] == "running"
    gate.open.set()


@pytest.mark.parametrize("name", ["my id/1", "ä?#%2F", ".."])
async def test_a_conversation_id_chosen_by_the_client_is_found(premises: Premises, name: str) -> None:
    await premises.send("@coder hello", message_id=name)
    await premises.drained()

    path = f"/api/traces/{quote(name, safe='').replace('.', '%2E')}"
    answer = await premises.http.get(path)

    assert answer.status_code == 200
    assert answer.json()["conversationId"] == name


@pytest.mark.parametrize("name", ["nothing", "a/b/c", "%00"])
async def test_an_unknown_conversation_is_not_found(premises: Premises, name: str) -> None:
    answer = await premises.http.get(f"/api/traces/{name}")

    assert answer.status_code == 404
    assert answer.json().keys() == {"error"}


async def test_a_conversation_id_that_is_too_long_is_refused(premises: Premises) -> None:
    assert (await premises.http.get(f"/api/traces/{'x' * 129}")).status_code == 400


async def test_conversations_are_listed_newest_first(premises: Premises) -> None:
    premises.puppet.plays["writer"] = failing()
    await premises.send("@coder one", sender="Ada", channel="web", message_id="first")
    await premises.drained()
    await premises.send("@writer two", message_id="second")
    await premises.until_event("message_dead")
    await premises.store.lanes.pause(AgentId("tester"))
    await premises.send("@tester three", message_id="third")

    listed = (await premises.http.get("/api/conversations")).json()

    assert [(one["id"], one["agent"], one["status"]) for one in listed] == [
        ("third", "tester", "open"),
        ("second", "writer", "dead"),
        ("first", "coder", "done"),
    ]
    first = listed[2]
    assert (first["channel"], first["sender"], first["message"]) == ("web", "Ada", "@coder one")
    assert (first["total"], first["open"], first["dead"], first["hops"], first["tokens"]) == (1, 0, 0, 0, 2)
    assert (await premises.http.get("/api/conversations", params={"limit": 1})).json() == listed[:1]


@pytest.mark.parametrize("limit", ["0", "1001", "x"])
async def test_an_invalid_list_limit_is_refused(premises: Premises, limit: str) -> None:
    assert (await premises.http.get(f"/api/conversations?limit={limit}")).status_code == 400
