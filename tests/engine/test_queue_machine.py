"""A random walk through all operations of the queue, against a model and against its event log.

After every step: nothing lost, nothing doubled, one run per lane, order kept per thread, counters true, nothing pruned
that a reader has not seen, and every table equal to a rebuild from the events alone.
"""

from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from tests.support.queue_ground import QueueGround
from tinyagi.domain.errors import ClaimLost, DuplicateMessage
from tinyagi.domain.events import BudgetReached, TeamChainStart
from tinyagi.domain.ids import AgentId, MessageId, TeamId
from tinyagi.domain.limits import Brakes, Retention
from tinyagi.domain.messages import ROOM_CHANNEL, ROOM_PRIORITY, Batching, NewMessage
from tinyagi.domain.retry import Failure, FailureKind, HoldCause
from tinyagi.domain.runs import Deferral, Handoff, Outcome, RoomPost

LANES = [AgentId(name) for name in ("a", "b", "c")]
TEAM = TeamId("team")
lanes = st.sampled_from(LANES)
held = st.sampled_from([frozenset(), frozenset({TEAM})])
BRAKES = Brakes(hops=2, conversation=5, per_minute=3)
CHAIN = TeamChainStart(TEAM, tuple(LANES), LANES[0])
WITHHELD = Deferral(BudgetReached("*", "used up", 1), "it waits")


class QueueMachine(QueueGround):
    # Operations of people and agents

    @initialize()
    def start(self) -> None:
        self.run(self.store.queue.recover())

    @rule(
        agent=lanes,
        channel=st.sampled_from(["api", "web", "telegram", ROOM_CHANNEL]),
        sender=st.sampled_from(["ada", "grace"]),
        priority=st.sampled_from([0, 0, 0, 5]),
        delay=st.sampled_from([0, 0, 0, 3000]),
        team=st.sampled_from([None, TEAM]),
    )
    def enqueue(
        self, agent: AgentId, channel: str, sender: str, priority: int, delay: int, team: TeamId | None
    ) -> None:
        self.number += 1
        is_room = channel == ROOM_CHANNEL
        message = NewMessage(
            f"text {self.number}",
            agent,
            channel=channel,
            sender=sender,
            message_id=MessageId(f"m{self.number}"),
            priority=ROOM_PRIORITY if is_room else priority,
            available_at=self.clock.now + delay if delay and not is_room else 0,
            team=TEAM if is_room else team,
        )
        self.run(self.store.queue.enqueue(message))

    @rule(count=st.integers(1, 4))
    def enqueue_parts(self, count: int) -> None:
        parts = [NewMessage(f"part {n}", LANES[n % 3], channel="web", sender="ada") for n in range(count)]
        self.run(self.store.queue.enqueue_parts(parts))

    @rule(count=st.integers(0, 3), wakes=st.booleans())
    def post(self, count: int, wakes: bool) -> None:
        self.run(self.store.queue.post(RoomPost(TEAM, "line", tuple(LANES[:count]), "a line", wakes), sender="ada"))

    @precondition(lambda self: self.number > 0)
    @rule()
    def repeat_an_id(self) -> None:
        if any(row["message_id"] == f"m{self.number}" for row in self.tables.messages.values()):
            try:
                self.run(
                    self.store.queue.enqueue(NewMessage("again", LANES[0], message_id=MessageId(f"m{self.number}")))
                )
            except DuplicateMessage:
                return
            assert self.pruned(f"m{self.number}")

    @rule(agent=lanes, batching=st.sampled_from(Batching), held_teams=held)
    def claim(self, agent: AgentId, batching: Batching, held_teams: frozenset[TeamId]) -> None:
        claim = self.run(self.store.queue.claim(agent, batching=batching, held_teams=held_teams))
        if claim is not None:
            assert agent not in self.claims, "two runs in one lane"
            self.check_order(claim, held_teams)
            self.claims[agent] = claim

    @precondition(lambda self: self.claims)
    @rule(agent=lanes, hands_on=st.booleans(), posts=st.booleans(), wakes=st.booleans(), chains=st.booleans())
    def complete(self, agent: AgentId, hands_on: bool, posts: bool, wakes: bool, chains: bool) -> None:
        claim = self.end(agent)
        other = LANES[(LANES.index(claim.agent) + 1) % 3]
        outcome = Outcome(
            "answer",
            handoffs=(Handoff(other, "take over", TEAM),) if hands_on else (),
            posts=(RoomPost(TEAM, "hear", (other, claim.agent), "hear, hear", wakes),) if posts else (),
            brakes=BRAKES,
            chain=CHAIN if chains else None,
        )
        self.run(self.store.queue.complete(claim, outcome))

    @precondition(lambda self: self.claims)
    @rule(agent=lanes, batching=st.sampled_from(Batching), held_teams=held)
    def complete_and_claim(self, agent: AgentId, batching: Batching, held_teams: frozenset[TeamId]) -> None:
        claim = self.end(agent)
        how: dict[str, Any] = {"batching": batching, "held_teams": held_teams}
        _, following = self.run(self.store.queue.complete_and_claim(claim, Outcome("on"), **how))
        if following is not None:
            self.catch_up()
            self.check_order(following, held_teams)
            self.claims[claim.agent] = following

    @rule(rounds=st.integers(1, 4), wakes=st.booleans())
    def hand_work_on(self, rounds: int, wakes: bool) -> None:
        for agent in LANES * rounds:
            self.catch_up()
            if agent not in self.claims:
                self.claim(agent, Batching.THREAD, frozenset())
            if agent in self.claims:
                self.complete(agent, True, True, wakes, True)

    @precondition(lambda self: self.claims)
    @rule(agent=lanes, kind=st.sampled_from([FailureKind.MESSAGE, FailureKind.TIMEOUT, FailureKind.UNAVAILABLE]))
    def fail(self, agent: AgentId, kind: FailureKind) -> None:
        self.run(self.store.queue.fail(self.end(agent), Failure(kind, f"{kind} trouble")))

    @precondition(lambda self: self.claims)
    @rule(agent=lanes, verb=st.sampled_from(["stop", "release", "withhold", "renew"]))
    def end_or_renew(self, agent: AgentId, verb: str) -> None:
        claim = self.end(agent)
        if verb == "renew":
            self.claims[claim.agent] = claim
            self.run(self.store.queue.renew(claim))
        elif verb == "stop":
            self.run(self.store.queue.stop(claim, by="ada"))
        else:
            withheld = WITHHELD if verb == "withhold" else None
            self.run(self.store.queue.release(claim, reason="shutdown", withheld=withheld))

    @rule()
    def crash_and_recover(self) -> None:
        """The process dies with its claims; another one opens the file and takes them back."""
        self.run(self.store.close())
        self.lost_claims += self.claims.values()
        expected = sum(len(claim.messages) for claim in self.claims.values())
        self.claims.clear()
        self.store = self.open()
        assert self.run(self.store.queue.recover()) == expected

    @precondition(lambda self: self.lost_claims)
    @rule(data=st.data(), verb=st.sampled_from(["complete", "fail", "stop", "release", "renew"]))
    def stale_holder_returns(self, data: st.DataObject, verb: str) -> None:
        claim = data.draw(st.sampled_from(self.lost_claims))
        moves: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
            "complete": lambda: self.store.queue.complete(claim, Outcome("late")),
            "fail": lambda: self.store.queue.fail(claim, Failure(FailureKind.MESSAGE, "late")),
            "stop": lambda: self.store.queue.stop(claim, by="late"),
            "release": lambda: self.store.queue.release(claim, reason="late"),
            "renew": lambda: self.store.queue.renew(claim),
        }
        try:
            self.run(moves[verb]())
        except ClaimLost:
            return
        raise AssertionError("a stale holder was accepted")

    @rule(data=st.data(), deletes=st.booleans())
    def retry_or_delete_a_dead_message(self, data: st.DataObject, deletes: bool) -> None:
        dead = sorted(number for number, row in self.tables.messages.items() if row["status"] == "dead")
        if dead:
            number = data.draw(st.sampled_from(dead))
            if deletes:
                self.run(self.store.queue.delete_dead(number, reason="by ada"))
            else:
                self.run(self.store.queue.retry_dead(number))

    @rule(agent=lanes, to=lanes)
    def move(self, agent: AgentId, to: AgentId) -> None:
        waiting = self.pending_in(agent)
        assert self.run(self.store.queue.move(agent, to)) == (0 if agent == to else len(waiting))
        assert agent == to or (not self.pending_in(agent) and set(waiting) <= set(self.pending_in(to)))

    @rule(agent=lanes)
    def abandon(self, agent: AgentId) -> None:
        waiting = self.pending_in(agent)
        assert self.run(self.store.queue.abandon(agent, reason="the agent was removed")) == len(waiting)
        assert not self.pending_in(agent)

    @rule(data=st.data(), agent=lanes, to=lanes, cancels=st.booleans())
    def cancel_or_move_a_message(self, data: st.DataObject, agent: AgentId, to: AgentId, cancels: bool) -> None:
        """Cancel or move one of the waiting messages of a lane."""
        waiting = [one.message.id for one in self.run(self.store.queue.waiting(agent=agent))]
        assert waiting == sorted(self.pending_in(agent))
        if not waiting or (agent == to and not cancels):
            return
        number = data.draw(st.sampled_from(waiting))
        if cancels:
            self.run(self.store.queue.cancel(number, reason="cancelled"))
        else:
            self.run(self.store.queue.move_message(number, to))
        assert number not in self.pending_in(agent)

    @rule(agent=lanes, verb=st.sampled_from(["resume", "lift", "pause", "hold"]))
    def pause_or_hold_a_lane(self, agent: AgentId, verb: str) -> None:
        if verb in {"pause", "resume"}:
            self.run(getattr(self.store.lanes, verb)(agent))
        else:
            until = self.clock.now + 5000 if verb == "hold" else 0
            self.run(
                self.store.lanes.hold(agent, until=until, reason="budget", cause=HoldCause.BUDGET if until else None)
            )

    @rule(data=st.data(), works=st.booleans())
    def deliver(self, data: st.DataObject, works: bool) -> None:
        channel = data.draw(st.sampled_from(["api", "web", "telegram"]))
        for response in self.run(self.store.responses.pending(channel, limit=3)):
            if works:
                self.run(self.store.responses.ack(response.id))
            else:
                self.run(self.store.responses.fail(response.id, "503"))

    @rule(seconds=st.sampled_from([1, 60, 7200, 90_000]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @rule(share=st.floats(0, 1))
    def a_reader_acknowledges(self, share: float) -> None:
        position = int(share * len(self.log))
        self.acknowledged = max(self.acknowledged or 0, position)
        self.run(self.store.events.acknowledge("lake", position))

    @rule()
    def prune(self) -> None:
        self.catch_up()
        before = self.rows("SELECT id, last_event_id FROM messages") + self.rows("SELECT id, id FROM events")
        self.run(self.store.queue.prune(Retention(completed=timedelta(hours=1), acked=timedelta(hours=1))))
        after = self.rows("SELECT id, last_event_id FROM messages") + self.rows("SELECT id, id FROM events")
        gone = Counter(before) - Counter(after)
        if self.acknowledged is not None:
            assert all(event_id <= self.acknowledged for _, event_id in gone), "pruned above a cursor"

    # Invariants after every step

    @invariant()
    def tables_match_the_events(self) -> None:
        self.catch_up()
        messages = self.table("SELECT * FROM message_rows")
        for row in messages:
            assert row == self.tables.messages[row["id"]]
        missing = self.tables.messages.keys() - {row["id"] for row in messages}
        assert all(self.tables.messages[number]["status"] == "completed" for number in missing), "a message was lost"
        responses = self.table("SELECT * FROM response_rows")
        for row in responses:
            assert row == self.tables.responses[row["id"]]
        missing = self.tables.responses.keys() - {row["id"] for row in responses}
        assert all(self.tables.responses[number]["status"] == "acked" for number in missing), "a response was lost"
        for table in ("chat_messages", "agent_messages"):
            rows = self.table(f"SELECT * FROM {table}")  # noqa: S608 - two fixed names
            for row in rows:
                row.pop("last_event_id")
            assert {row["id"]: row for row in rows} == getattr(self.tables, table)

    @invariant()
    def lanes_and_conversations_match_the_events(self) -> None:
        self.catch_up()
        for lane in self.table("SELECT agent, paused, hold_until, hold_reason, hold_cause, holds FROM lanes"):
            expected_lane = self.tables.lanes[lane.pop("agent")]
            assert {**lane, "paused": bool(lane["paused"])} == expected_lane
        for conversation in self.table("SELECT id, open, total FROM conversations"):
            assert conversation["open"] == self.tables.open_in(conversation["id"])
            assert conversation["total"] == self.tables.totals[conversation["id"]] <= BRAKES.conversation

    @invariant()
    def the_brakes_hold(self) -> None:
        self.catch_up()
        between = [row for row in self.tables.messages.values() if row["from_agent"]]
        assert all(row["hop"] <= BRAKES.hops for row in between)
        # Messages that a person moves into a lane do not count for the brakes.
        moved = {event.payload["id"] for event in self.log if event.type == "message_moved"}
        arrived = [row for row in between if row["id"] not in moved]
        recent = Counter(row["agent"] for row in arrived if row["created_at"] > self.clock.now - 60_000)
        assert all(count <= BRAKES.per_minute for count in recent.values())

    @invariant()
    def nothing_is_answered_twice(self) -> None:
        self.catch_up()
        answers = Counter((row["message_id"], row["agent"], row["seq"]) for row in self.tables.responses.values())
        assert all(count == 1 for count in answers.values())
        done = Counter(
            number for event in self.log if event.type == "chain_step_done" for number in event.payload["ids"]
        )
        assert all(count == 1 for count in done.values()), "a message was completed twice"

    @invariant()
    def counters_are_correct(self) -> None:
        counted = Counter(self.rows("SELECT agent, status FROM messages"))
        for lane in self.run(self.store.queue.depth()).lanes:
            for status in ("pending", "processing", "completed", "dead"):
                assert getattr(lane, status) == counted.pop((lane.agent, status), 0)
        assert not counted
        outgoing = self.rows("SELECT count(*) FROM responses WHERE status = 'pending'")
        assert self.run(self.store.queue.depth()).outgoing == outgoing[0][0]

    @invariant()
    def a_parked_message_has_another_message_to_wait_for(self) -> None:
        parked = set(self.rows("SELECT agent, thread FROM messages WHERE status = 'pending' AND waits_for = 'thread'"))
        others = self.rows(
            "SELECT agent, thread FROM messages WHERE status = 'processing' OR (status = 'pending' "
            "AND (waits_for IS NULL OR (waits_for = 'time' AND retry_count > 0)))"
        )
        assert parked <= set(others)

    @invariant()
    def one_run_per_lane(self) -> None:
        running = self.rows(
            "SELECT agent, count(DISTINCT claim_id) FROM messages WHERE status = 'processing' GROUP BY 1"
        )
        assert all(count == 1 for _, count in running)
        assert {agent for agent, _ in running} == set(self.claims)

    def teardown(self) -> None:
        self.run_to_the_end()
        super().teardown()

    def run_to_the_end(self) -> None:
        """Once no lane is paused or held and all messages are due, every message runs."""
        for claim in self.claims.values():
            self.run(self.store.queue.complete(claim, Outcome("last")))
        self.clock.advance(timedelta(days=365))
        for agent in LANES:
            self.run(self.store.lanes.resume(agent))
            while (claim := self.run(self.store.queue.claim(agent))) is not None:
                self.run(self.store.queue.complete(claim, Outcome("last")))
        waiting = self.rows("SELECT id, waits_for FROM messages WHERE status = 'pending' AND priority > -2")
        assert not waiting, "a message never has its turn"
        for channel in ("api", "web", "telegram"):
            while page := self.run(self.store.responses.pending(channel)):
                for response in page:
                    self.run(self.store.responses.ack(response.id))
        assert self.run(self.store.queue.depth()).outgoing == 0, "a response is never delivered"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("walks", [30, pytest.param(500, marks=pytest.mark.soak)])
def test_the_queue_keeps_its_invariants(walks: int) -> None:
    limits = settings(
        max_examples=walks,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(QueueMachine, settings=limits)
