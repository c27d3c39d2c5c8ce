"""Completes a run: stores its answer, history, hand-offs, room posts, session, spending and events, all or nothing."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from tinyagi.domain.events import ChainHandoff, ChainStepDone, ChatPosted, LoopStopped
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.limits import Brake, Brakes, Charge, loop_notice
from tinyagi.domain.messages import Message, NewMessage, teammate_thread
from tinyagi.domain.responses import Role
from tinyagi.domain.runs import Claim, Handoff, Outcome
from tinyagi.store.claim import ClaimRequest, Unfinished, update_claimed_lanes
from tinyagi.store.claim import claim as claim_next
from tinyagi.store.enqueue import MessageBatch, close_conversations, delivery, new_line, teams_of
from tinyagi.store.responses import notice, respond, row_of
from tinyagi.store.sessions import add_charges, save_session
from tinyagi.store.transaction import Transaction
from tinyagi.store.unanswered import release_orphans

MINUTE_MS: Final = 60_000

RefusedHandoffs = dict[Brake, list[AgentId]]


class CompleteRequest(NamedTuple):
    claim: Claim
    outcome: Outcome


def complete(tx: Transaction, requests: Sequence[CompleteRequest]) -> list[tuple[Message, ...]]:
    """Returns the messages that each run handed on."""
    lanes: list[tuple[object, ...]] = [(request.claim.agent, request.claim.id) for request in requests]
    update_claimed_lanes(tx, "free_lane_after_success", lanes)
    completion = _Completion(tx, teams_of(tx, (message for request in requests for message in request.claim.messages)))
    handed_on = [completion.add(request.claim, request.outcome) for request in requests]
    completion.write()
    return handed_on


def complete_and_claim(
    tx: Transaction, requests: Sequence[tuple[CompleteRequest, ClaimRequest]]
) -> list[tuple[tuple[Message, ...], Claim | None]]:
    """Complete each run and claim the next message of its lane; an unfinished search is left to the next claim."""
    handed_on = complete(tx, [completed for completed, _ in requests])
    claims = claim_next(tx, [wanted for _, wanted in requests])
    finished = [None if isinstance(claim, Unfinished) else claim for claim in claims]
    return list(zip(handed_on, finished, strict=True))


def release_next(tx: Transaction, results: Sequence[tuple[tuple[Message, ...], Claim | None]]) -> list[None]:
    """Release the next claims of callers that are gone; their completed messages stay completed."""
    return release_orphans(tx, [claim for _, claim in results])


class _Completion:
    """Collects the outcomes of finished runs, and writes each table once."""

    def __init__(self, tx: Transaction, teams: dict[str, TeamId]) -> None:
        self._tx = tx
        self._teams = teams
        self._batch = MessageBatch(tx)
        self._handoffs = Handoffs(tx, self._batch)
        self._finished: list[tuple[object, ...]] = []
        self._closed: list[Message] = []
        self._responses: list[tuple[object, ...]] = []
        self._charges: list[Charge] = []

    def add(self, claim: Claim, outcome: Outcome) -> tuple[Message, ...]:
        tx, primary = self._tx, claim.primary
        if outcome.chain is not None and self._batch.give_to_team(primary.conversation_id, outcome.chain.team_id):
            self._teams[primary.conversation_id] = outcome.chain.team_id
            tx.record(outcome.chain, primary)
        team = primary.team or self._teams.get(primary.conversation_id)
        event_id = tx.next_event_id()
        history_id = self._batch.add_history(primary, Role.ASSISTANT, outcome.answer, event_id)
        tx.record(_done_event(tx, claim, outcome, history_id, team), primary)
        for message in claim.messages:
            self._finished.append((message.id, claim.id, primary.message_id, tx.now, event_id))
            self._closed.append(message)
        if not claim.is_room_only:
            text = outcome.answer if outcome.response is None else outcome.response
            self._responses.append(row_of(respond(tx, primary, text, outcome.files, outcome.metadata)))
        for fact in outcome.facts:
            tx.record(fact, primary)
        if outcome.session is not None:
            save_session(tx, claim, outcome.session)
        if outcome.charge is not None:
            self._charges.append(outcome.charge)
        if not outcome.handoffs and not outcome.posts:
            return ()
        handed_on, refused = self._handoffs.add(claim, outcome)
        if refused:
            self._report_refused(claim, refused)
        return handed_on

    def write(self) -> None:
        tx = self._tx
        tx.connection.executemany(tx.sql["finish_message"], self._finished)
        tx.insert("insert_response", self._responses)
        add_charges(tx, self._charges)
        self._handoffs.write()
        # New messages before closed ones, so that a conversation with a hand-off never looks ended in between.
        self._batch.write()
        close_conversations(tx, self._closed, self._teams)

    def _report_refused(self, claim: Claim, refused: RefusedHandoffs) -> None:
        """Record an event for every exceeded limit, and send the person one notice about all of them."""
        tx, primary = self._tx, claim.primary
        for brake, agents in refused.items():
            tx.record(LoopStopped(brake.reason, brake.limit, tuple(agents)), primary)
        if not claim.is_room_only:
            texts = [loop_notice(claim.agent, tuple(agents), brake) for brake, agents in refused.items()]
            self._responses.append(row_of(notice(tx, primary, "\n".join(texts))))


def _done_event(tx: Transaction, claim: Claim, outcome: Outcome, history_id: int, team: TeamId | None) -> ChainStepDone:
    primary = claim.primary
    return ChainStepDone(
        claim_id=claim.id,
        ids=tuple([message.id for message in claim.messages]),
        message_ids=tuple([message.message_id for message in claim.messages]),
        channel=primary.channel,
        sender=primary.sender,
        content=outcome.answer,
        history_id=history_id,
        team_id=team,
        duration_ms=max(0, tx.now - claim.started_at),
        usage=outcome.usage,
    )


class Handoffs:
    """Collects the hand-offs and room lines of one transaction; the messages go into the batch."""

    def __init__(self, tx: Transaction, batch: MessageBatch) -> None:
        self._tx = tx
        self._batch = batch
        self._counts = _LoopCounts(tx)
        self._lines: list[tuple[object, ...]] = []

    def add(self, claim: Claim, outcome: Outcome) -> tuple[tuple[Message, ...], RefusedHandoffs]:
        """The messages that were handed on, and the agents that a loop limit refused one."""
        tx, primary = self._tx, claim.primary
        outgoing = _Outgoing(tx, self._batch, self._counts, claim, outcome.brakes)
        for handoff in outcome.handoffs:
            message = outgoing.send(_handoff_message(primary, handoff), "internal")
            if message is not None:
                tx.record(ChainHandoff(handoff.team, claim.agent, handoff.to, message.message_id), primary)
        for post in outcome.posts:
            line = new_line(tx, post, claim.agent)
            self._lines.append((*line, tx.record(ChatPosted(line._asdict()), primary)))
            for member in post.members:
                outgoing.send(delivery(post, member, claim.agent), "chat")
        return tuple(outgoing.sent), outgoing.refused

    def write(self) -> None:
        self._tx.connection.executemany(self._tx.sql["insert_chat_message"], self._lines)


class _Outgoing:
    """Messages that one run sends: each descends from the run's primary message, or is refused."""

    def __init__(
        self, tx: Transaction, batch: MessageBatch, counts: "_LoopCounts", claim: Claim, brakes: Brakes | None
    ) -> None:
        self._tx = tx
        self._batch = batch
        self._counts = counts
        self._primary = claim.primary
        self._hop = max(message.hop for message in claim.messages) + 1
        self._brakes = brakes
        self.sent: list[Message] = []
        self.refused: RefusedHandoffs = {}

    def send(self, new: NewMessage, prefix: str) -> Message | None:
        """Store the message; None when a loop limit refuses it."""
        conversation_id = self._primary.conversation_id
        new = new._replace(
            from_agent=self._primary.agent,
            conversation_id=conversation_id,
            parent_message_id=self._primary.message_id,
            hop=self._hop,
        )
        brake = None if self._brakes is None else self._counts.exceeded(new, conversation_id, self._brakes)
        if brake is not None:
            self.refused.setdefault(brake, []).append(new.agent)
            return None
        self._counts.count(new, conversation_id)
        message = self._batch.add(new, self._tx.new_id(prefix))
        self.sent.append(message)
        return message


class _LoopCounts:
    """Counts that the loop limits compare: messages between agents, stored ones and those of this transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._in_conversation: Counter[str] = Counter()
        self._to_agent: Counter[str] = Counter()

    def exceeded(self, new: NewMessage, conversation_id: str, brakes: Brakes) -> Brake | None:
        connection, sql = self._tx.connection, self._tx.sql
        total = connection.execute(sql["conversation_total"], (conversation_id,)).get
        recent = connection.execute(sql["count_from_agents"], (new.agent, self._tx.now - MINUTE_MS)).get
        return brakes.refuse(
            to=new.agent,
            hop=new.hop,
            total=total + self._in_conversation[conversation_id],
            recent=recent + self._to_agent[new.agent],
        )

    def count(self, new: NewMessage, conversation_id: str) -> None:
        self._in_conversation[conversation_id] += 1
        self._to_agent[new.agent] += 1


def _handoff_message(primary: Message, handoff: Handoff) -> NewMessage:
    return NewMessage(
        message=handoff.message,
        agent=handoff.to,
        channel=primary.channel,
        sender=primary.sender,
        sender_id=primary.sender_id,
        team=handoff.team,
        # Also for a run in a room: the room's thread is for posts.
        thread=teammate_thread(primary.agent, primary.conversation_id),
    )
