"""The simulated office: people, runs and deliveries act on a clock that jumps from one turn to the next.

Each turn is the store's own operation, the one that the real queue would write then; no table is written here. So every
event is one that the real queue records, at the instant at which it would.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from heapq import heappop, heappush
from itertools import accumulate, count
from typing import Final, NamedTuple, TypeVar

import apsw

from pipeline_world import LASTING, PASSIVE_ROOMS, TRANSIENT, Fault, Person, World
from tinyagi.domain.events import AgentRouted, Event, ProcessorStart, ProcessorStop
from tinyagi.domain.ids import AgentId, ConversationId, IdSource
from tinyagi.domain.limits import Brakes, Charge, Usage, charge, scopes_of
from tinyagi.domain.messages import CHAT_CHANNELS, Batching, NewMessage
from tinyagi.domain.retry import Dead, FailureKind, Retry, RetryPolicy, Wait
from tinyagi.domain.routing import Team, prompt_from_room
from tinyagi.domain.runs import Claim, Outcome, RoomPost
from tinyagi.domain.tags import render_for_people
from tinyagi.engine.answers import chain_start, handoffs_of, room_posts_of, team_chain_of
from tinyagi.store.claim import ClaimRequest, Unfinished, claim
from tinyagi.store.complete import CompleteRequest, complete, complete_and_claim
from tinyagi.store.connection import load_statements
from tinyagi.store.enqueue import EnqueueRequest, enqueue, post
from tinyagi.store.responses import ack, fail_delivery
from tinyagi.store.transaction import Context, Transaction
from tinyagi.store.unanswered import fail, release, retry_dead
from tinyagi.system.processes import ProcessIdentity

T = TypeVar("T")

Turn = tuple[int, int, Callable[[], None]]
"""A time, a number that orders turns of the same time, and the action."""

HOUR_MS: Final = 3_600_000
TOGETHER: Final = 24
"""Hours in one transaction."""
OWNER: Final = ProcessIdentity("office", "boot", 1, 1.0)
POLICY: Final = RetryPolicy()

ROOM_LINES, FAN_OUTS, TO_TEAMS = 0.02, 0.03, 0.20
"""Shares of what people write: a line in a chat room, one text for two agents, one for a team; the rest goes to one."""
BURSTS: Final = 0.08
LASTING_FAULTS, TRANSIENT_FAULTS = 0.003, 0.02
HANDOFFS_IN_TEAM, HANDOFFS_FURTHER, HANDOFFS_ALONE, POSTS = 0.5, 0.2, 0.05, 0.02
RETRIED_BY_HAND, UNFETCHED, UNDELIVERED = 0.25, 0.01, 0.005

EVENTS_PER_ARRIVAL: Final = 8.0
"""A first guess; the pace then follows the measured ratio."""
EVENTS_PER_RETURN: Final = 5.8
"""Events when a person returns to an old conversation, without deliveries, which name no conversation."""
CALM: Final = 50_000
"""Events a day up to which runs take their natural time; beyond it they are shorter, or lanes would never catch up."""

_OLD: Final = """
SELECT conversation_id, agent, channel, sender, sender_id FROM messages
WHERE id >= ?1 AND created_at < ?2 AND conversation_id = message_id AND channel <> 'chatroom' ORDER BY id LIMIT 1"""
_WAITING: Final = "SELECT agent, count(*) FROM messages WHERE status = 'pending' GROUP BY agent ORDER BY agent"


def newest(connection: apsw.Connection, table: str) -> int:
    """The highest id of a table, or 0."""
    number: int = connection.execute(f"SELECT ifnull(max(id), 0) FROM {table}").get
    return number


class Hour(NamedTuple):
    start_at: int
    end_at: int
    share: float
    """The share of all events written by its end."""


class Office:
    """Runs turns in the order of their times; the transaction's `now` is the clock."""

    def __init__(self, connection: apsw.Connection, world: World, start_at: int, old_share: float) -> None:
        self._connection = connection
        self._world = world
        self._start_at = start_at
        self._haste = 1.0
        self._old_share = old_share
        sql = load_statements()
        self.head = newest(connection, "events")
        # There are never more ids than events, so ids that start at the head are new.
        self._context = Context(sql, IdSource(self.head), world.dice, OWNER)
        self._tx = Transaction(connection, self._context, start_at)
        self._responses = newest(connection, "responses")
        self._last_old = newest(connection, "messages")
        self._old_due = 0.0
        self._arrivals = 0
        self._per_arrival = EVENTS_PER_ARRIVAL
        self._agenda: list[Turn] = []
        self._number = count()
        self._running: dict[AgentId, Claim] = {}
        self._woken: set[AgentId] = set()
        self._waiting: Counter[AgentId] = Counter(dict(connection.execute(_WAITING)))
        self._doomed: dict[int, Fault] = {}

    def work(self, events: int, end_at: int, progress: Callable[[int], None]) -> None:
        """Write about this many events until `end_at`, one day per transaction; then release running claims."""
        first = self.head
        self._haste = min(1.0, CALM * (end_at - self._start_at) / (events * 24 * HOUR_MS))
        with self._transaction(self._start_at):
            self._tx.record_alone(ProcessorStart(str(OWNER)))
            for agent in self._waiting:
                self._wake(agent)
        hours = _pace(self._start_at, end_at)
        for day in (hours[n : n + TOGETHER] for n in range(0, len(hours), TOGETHER)):
            with self._transaction(day[0].start_at):
                for hour in day:
                    self._work_hour(hour, first, first + events * hour.share)
            progress(self.head - first)
        with self._transaction(end_at - 1):
            # The rest of the agenda is dropped: unfetched answers, and retries after the end.
            for held in self._running.values():
                release(self._tx, held, "shutdown")
            self._tx.record_alone(ProcessorStop(str(OWNER)))

    def _work_hour(self, hour: Hour, first: int, goal: float) -> None:
        """Add the arrivals that bring the log to its goal at the measured events per arrival."""
        done = self._tx.next_event_id() - 1 - first
        self._per_arrival = (done + 50 * EVENTS_PER_ARRIVAL) / (self._arrivals + 50)
        for _ in range(round((goal - first - done) / self._per_arrival)):
            self._at(self._world.dice.randrange(hour.start_at, hour.end_at), Office._arrive, self)
        self._run_until(hour.end_at)

    @contextmanager
    def _transaction(self, at: int) -> Iterator[None]:
        with self._connection:
            self._tx = Transaction(self._connection, self._context, at)
            yield
            self._tx.flush()
            self.head = self._tx.next_event_id() - 1

    def _run_until(self, instant: int) -> None:
        while self._agenda and self._agenda[0][0] < instant:
            self._tx.now, _, step = heappop(self._agenda)
            step()

    def _at(self, instant: int, step: Callable[[T], None], subject: T) -> None:
        turn: Turn = (instant, next(self._number), partial(step, subject))
        heappush(self._agenda, turn)

    def _after(self, delay_ms: int, step: Callable[[T], None], subject: T) -> None:
        self._at(self._tx.now + delay_ms, step, subject)

    def _arrive(self) -> None:
        """A person writes."""
        world = self._world
        self._arrivals += 1
        self._old_due += self._old_share * self._per_arrival / EVENTS_PER_RETURN
        roll, person = world.dice.random(), world.person()
        if self._old_due >= 1:
            self._old_due -= 1
            self._write_again()
        elif roll < ROOM_LINES:
            self._say(person)
        elif roll < ROOM_LINES + FAN_OUTS:
            self._enqueue(*(self._to_agent(person, agent) for agent in dict.fromkeys((world.agent(), world.agent()))))
        elif roll < ROOM_LINES + FAN_OUTS + TO_TEAMS:
            self._enqueue(self._to_team(person, world.team()))
        else:
            self._write_to((person, world.agent()))

    def _write_to(self, pair: tuple[Person, AgentId]) -> None:
        person, agent = pair
        self._enqueue(self._to_agent(person, agent))
        if person.channel in CHAT_CHANNELS and self._world.happens(BURSTS):
            self._after(self._world.delay(1_500), self._write_to, pair)

    def _write_again(self) -> None:
        """A person returns to an old conversation."""
        chosen = self._world.dice.randint(1, self._last_old)
        row = self._connection.execute(_OLD, (chosen, self._start_at)).fetchone()
        row = row or self._connection.execute(_OLD, (0, self._start_at)).fetchone()
        if row is None:
            raise RuntimeError("There is no old conversation to go on with: its messages are pruned.")
        conversation_id, agent, *person = row
        message = self._to_agent(Person(*person), AgentId(agent))
        self._enqueue(message._replace(conversation_id=ConversationId(conversation_id)))

    def _to_agent(self, person: Person, agent: AgentId) -> NewMessage:
        facts = (self._routed(agent, None),)
        return NewMessage(self._world.text(), agent, *person, facts=facts)

    def _to_team(self, person: Person, team: Team) -> NewMessage:
        facts: tuple[Event, ...] = (self._routed(team.leader, team), chain_start(team))
        return NewMessage(self._world.text(), team.leader, *person, team=team.id, facts=facts)

    def _routed(self, agent: AgentId, team: Team | None) -> AgentRouted:
        return self._world.worker(agent).routed(None if team is None else team.id)

    def _enqueue(self, *parts: NewMessage) -> None:
        (stored,) = enqueue(self._tx, [EnqueueRequest(parts, are_parts=True)])
        self._expect(message.agent for message in stored)

    def _say(self, person: Person) -> None:
        team, text = self._world.team(), self._world.text()
        prompt, wakes = prompt_from_room(team.id, person.name, text), team.id not in PASSIVE_ROOMS
        line = RoomPost(team.id, text, team.agents, prompt, wakes)
        post(self._tx, line, person.name)
        self._expect(team.agents)

    def _expect(self, agents: Iterable[AgentId]) -> None:
        """One more message waits in each of these lanes."""
        for agent in agents:
            self._waiting[agent] += 1
            self._wake(agent)

    def _wake(self, agent: AgentId) -> None:
        if agent not in self._running and agent not in self._woken:
            self._woken.add(agent)
            self._after(self._world.delay(120, 1.2), self._claim, agent)

    def _claim(self, agent: AgentId) -> None:
        self._woken.discard(agent)
        if agent not in self._running and self._waiting[agent]:
            (held,) = claim(self._tx, [_next_of(agent)])
            self._begin(agent, held)

    def _begin(self, agent: AgentId, held: Claim | Unfinished | None) -> None:
        """A run, and how it will end."""
        self._running.pop(agent, None)
        if not isinstance(held, Claim):
            return
        self._running[agent] = held
        self._waiting[agent] -= len(held.messages)
        fault = self._fault_of(held)
        median = self._world.worker(agent).run_ms
        if fault is not None and fault.kind is FailureKind.UNAVAILABLE:
            median = 800
        duration = self._world.delay(median * self._haste, 0.8)
        if fault is not None and fault.kind is FailureKind.TIMEOUT:
            duration = round(300_000 * self._haste)
        self._after(duration, self._end, (held, fault))

    def _fault_of(self, held: Claim) -> Fault | None:
        world, number = self._world, held.primary.id
        if held.attempt == 1 and world.happens(LASTING_FAULTS):
            self._doomed[number] = world.dice.choice(LASTING)
        return self._doomed.get(number) or (world.dice.choice(TRANSIENT) if world.happens(TRANSIENT_FAULTS) else None)

    def _end(self, ending: tuple[Claim, Fault | None]) -> None:
        held, fault = ending
        if fault is None:
            self._complete(held)
        else:
            self._fail(held, fault)
        before, self._responses = self._responses, newest(self._connection, "responses")
        for response in range(before + 1, self._responses + 1):
            if not self._world.happens(UNFETCHED):
                self._after(self._world.delay(1_200, 1.5), self._deliver, response)

    def _complete(self, held: Claim) -> None:
        world, primary = self._world, held.primary
        answer = self._answer(held)
        has_tags = "[" in answer
        handoffs = handoffs_of(answer, primary, world.roster) if has_tags else ()
        usage = world.usage(held.agent, answer)
        outcome = Outcome(
            answer=answer,
            response=render_for_people(answer, held.agent) if has_tags else answer,
            handoffs=handoffs,
            posts=room_posts_of(answer, held.agent, world.roster, PASSIVE_ROOMS) if has_tags else (),
            usage=usage,
            charge=self._charge(held, usage),
            brakes=Brakes(),
            chain=team_chain_of(handoffs, primary, world.roster),
        )
        completed, following = CompleteRequest(held, outcome), None
        if self._waiting[held.agent]:
            ((handed_on, following),) = complete_and_claim(self._tx, [(completed, _next_of(held.agent))])
        else:
            (handed_on,) = complete(self._tx, [completed])
        self._begin(held.agent, following)
        self._expect(message.agent for message in handed_on)

    def _answer(self, held: Claim) -> str:
        """The agent's answer; in a team it may contain hand-offs and room posts."""
        world, primary = self._world, held.primary
        answer = world.text(median=180)
        team = world.roster.teams[primary.team] if primary.team else world.team_of(held.agent)
        if team is None or held.is_room_only:
            return answer
        share = HANDOFFS_ALONE if primary.team is None else HANDOFFS_FURTHER if primary.hop else HANDOFFS_IN_TEAM
        mates = team.teammates_of(held.agent)
        while world.happens(share):
            answer += f"\n[@{world.dice.choice(mates)}: {world.text()}]"
            share /= 3
        if world.happens(POSTS):
            answer += f"\n[#{team.id}: {world.text()}]"
        return answer

    def _charge(self, held: Claim, usage: Usage | None) -> Charge | None:
        day = datetime.fromtimestamp(self._tx.now / 1000, UTC).date().isoformat()
        return charge(usage, self._world.worker(held.agent).price, day, scopes_of(held.agent, held.primary.team))

    def _fail(self, held: Claim, fault: Fault) -> None:
        tx, failure = self._tx, self._world.failure(held, fault)
        fail(tx, held, replace(failure, charge=self._charge(held, failure.usage)), POLICY)
        self._begin(held.agent, None)
        self._wake(held.agent)
        for message in held.messages:
            # The longest that the dice can have made the pause.
            verdict = POLICY.verdict(failure, message, tx.now, 1.0)
            match verdict:
                case Retry(at=at):
                    self._waiting[held.agent] += 1
                    self._at(at, self._claim, held.agent)
                case Wait():
                    self._waiting[held.agent] += 1
                    self._at(POLICY.hold_until(failure, held.holds, tx.now, 1.0), self._claim, held.agent)
                case Dead():
                    if self._world.happens(RETRIED_BY_HAND):
                        self._after(self._world.delay(2 * HOUR_MS), self._retry, message.id)

    def _retry(self, number: int) -> None:
        """A person has fixed the cause of the failure."""
        self._doomed.pop(number, None)
        message = retry_dead(self._tx, number)
        self._expect([message.agent])

    def _deliver(self, response: int) -> None:
        if self._world.happens(UNDELIVERED):
            fail_delivery(self._tx, response, "the channel is not connected", POLICY)
            self._after(self._world.delay(10_000), self._deliver, response)
        else:
            ack(self._tx, response)


def _next_of(agent: AgentId) -> ClaimRequest:
    return ClaimRequest(agent, Batching.THREAD, HOUR_MS)


def _pace(start_at: int, end_at: int) -> list[Hour]:
    """Busy days, quiet nights and weekends."""
    starts = range(start_at, end_at, HOUR_MS)
    done = list(accumulate(_business(datetime.fromtimestamp(at / 1000, UTC)) for at in starts))
    return [Hour(at, min(at + HOUR_MS, end_at), share / done[-1]) for at, share in zip(starts, done, strict=True)]


def _business(moment: datetime) -> float:
    by_day = 1.0 if 7 <= moment.hour < 19 else 0.4 if 6 <= moment.hour < 23 else 0.08
    return by_day * (0.35 if moment.weekday() >= 5 else 1.0)
