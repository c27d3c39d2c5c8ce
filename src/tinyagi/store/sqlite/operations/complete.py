"""Complete: the answer, the history, the hand-offs, the room posts and the events of a good run, all or nothing."""

from collections.abc import Sequence
from typing import NamedTuple

from tinyagi.domain.brakes import loop_notice
from tinyagi.domain.events import ChainStepDone, LoopStopped
from tinyagi.domain.ids import TeamId
from tinyagi.domain.messages import Claim, Message, Outcome
from tinyagi.domain.responses import Role
from tinyagi.domain.spending import Charge
from tinyagi.store.sqlite.operations.claim import ClaimRequest, change_lanes
from tinyagi.store.sqlite.operations.claim import claim as claim_next
from tinyagi.store.sqlite.operations.conversations import close_conversations, teams_of
from tinyagi.store.sqlite.operations.enqueue import Inflow
from tinyagi.store.sqlite.operations.finish import release_orphans
from tinyagi.store.sqlite.operations.hand_on import HandOn, Refused
from tinyagi.store.sqlite.operations.ready import Unfinished
from tinyagi.store.sqlite.operations.respond import notice, respond, row_of
from tinyagi.store.sqlite.operations.sessions import keep_session
from tinyagi.store.sqlite.operations.spending import add_charges
from tinyagi.store.sqlite.transaction import Transaction


class CompleteRequest(NamedTuple):
    claim: Claim
    outcome: Outcome


def complete(tx: Transaction, requests: Sequence[CompleteRequest]) -> list[tuple[Message, ...]]:
    """Returns the messages that each run handed on."""
    lanes: list[tuple[object, ...]] = [(request.claim.agent, request.claim.id) for request in requests]
    change_lanes(tx, "free_lane_after_success", lanes)
    completion = _Completion(tx, teams_of(tx, (message for request in requests for message in request.claim.messages)))
    handed_on = [completion.add(request.claim, request.outcome) for request in requests]
    completion.write()
    return handed_on


def complete_and_claim(
    tx: Transaction, requests: Sequence[tuple[CompleteRequest, ClaimRequest]]
) -> list[tuple[tuple[Message, ...], Claim | None]]:
    """Complete each run and take the next message of its lane; the next claim finishes an unfinished search."""
    handed_on = complete(tx, [completed for completed, _ in requests])
    claims = claim_next(tx, [wanted for _, wanted in requests])
    taken = [None if isinstance(held, Unfinished) else held for held in claims]
    return list(zip(handed_on, taken, strict=True))


def release_next(tx: Transaction, results: Sequence[tuple[tuple[Message, ...], Claim | None]]) -> list[None]:
    """Give back the next claims of callers that have gone; what they completed stays completed."""
    return release_orphans(tx, [held for _, held in results])


class _Completion:
    """Collects what finished runs leave behind, and writes each table once."""

    def __init__(self, tx: Transaction, teams: dict[str, TeamId]) -> None:
        self._tx = tx
        self._teams = teams
        self._inflow = Inflow(tx)
        self._hand_on = HandOn(tx, self._inflow)
        self._finished: list[tuple[object, ...]] = []
        self._closed: list[Message] = []
        self._responses: list[tuple[object, ...]] = []
        self._charges: list[Charge] = []

    def add(self, claim: Claim, outcome: Outcome) -> tuple[Message, ...]:
        tx, primary = self._tx, claim.primary
        if outcome.chain is not None and self._inflow.give_to_team(primary.conversation_id, outcome.chain.team_id):
            self._teams[primary.conversation_id] = outcome.chain.team_id
            tx.record(outcome.chain, primary)
        team = primary.team or self._teams.get(primary.conversation_id)
        event_id = tx.next_event_id()
        history_id = self._inflow.add_history(primary, Role.ASSISTANT, outcome.answer, event_id)
        tx.record(_done(tx, claim, outcome, history_id, team), primary)
        for message in claim.messages:
            self._finished.append((message.id, claim.id, primary.message_id, tx.now, event_id))
            self._closed.append(message)
        if not claim.is_room_only:
            text = outcome.answer if outcome.response is None else outcome.response
            self._responses.append(row_of(respond(tx, primary, text, outcome.files, outcome.metadata)))
        for fact in outcome.facts:
            tx.record(fact, primary)
        if outcome.session is not None:
            keep_session(tx, claim, outcome.session)
        if outcome.charge is not None:
            self._charges.append(outcome.charge)
        if not outcome.handoffs and not outcome.posts:
            return ()
        handed_on, refused = self._hand_on.add(claim, outcome)
        if refused:
            self._tell_refused(claim, refused)
        return handed_on

    def write(self) -> None:
        tx = self._tx
        tx.connection.executemany(tx.sql["finish_message"], self._finished)
        tx.insert("insert_response", self._responses)
        add_charges(tx, self._charges)
        self._hand_on.write()
        # First what comes in, then what goes out: a conversation that is handed on never looks ended in between.
        self._inflow.write()
        close_conversations(tx, self._closed, self._teams)

    def _tell_refused(self, claim: Claim, refused: Refused) -> None:
        """A fact for every brake, and one notice to the person for all of them."""
        tx, primary = self._tx, claim.primary
        for brake, agents in refused.items():
            tx.record(LoopStopped(brake.reason, brake.limit, tuple(agents)), primary)
        if not claim.is_room_only:
            texts = [loop_notice(claim.agent, tuple(agents), brake) for brake, agents in refused.items()]
            self._responses.append(row_of(notice(tx, primary, "\n".join(texts))))


def _done(tx: Transaction, claim: Claim, outcome: Outcome, history_id: int, team: TeamId | None) -> ChainStepDone:
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
