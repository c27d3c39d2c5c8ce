"""Complete: the answer, the history, the hand-offs, the room posts and the events of a good run, all or nothing."""

from collections.abc import Sequence
from typing import NamedTuple

from tinyagi.domain.events import ChainHandoff, ChainStepDone, ChatPosted
from tinyagi.domain.ids import MessageId
from tinyagi.domain.messages import ROOM_CHANNEL, ROOM_PRIORITY, Claim, Handoff, Message, NewMessage, Outcome, RoomPost
from tinyagi.domain.responses import ChatMessage, Role
from tinyagi.store.sqlite.operations.claim import ClaimRequest, change_lanes
from tinyagi.store.sqlite.operations.claim import claim as claim_next
from tinyagi.store.sqlite.operations.enqueue import Inflow
from tinyagi.store.sqlite.operations.finish import close_conversations, release_orphans, respond, row_of
from tinyagi.store.sqlite.transaction import Transaction


class CompleteRequest(NamedTuple):
    claim: Claim
    outcome: Outcome


def complete(tx: Transaction, requests: Sequence[CompleteRequest]) -> list[tuple[Message, ...]]:
    """Returns the messages that each run handed on."""
    lanes: list[tuple[object, ...]] = [(request.claim.agent, request.claim.id) for request in requests]
    change_lanes(tx, "free_lane_after_success", lanes)
    completion = _Completion(tx)
    handed_on = [completion.add(request.claim, request.outcome) for request in requests]
    completion.write()
    return handed_on


def complete_and_claim(
    tx: Transaction, requests: Sequence[tuple[CompleteRequest, ClaimRequest]]
) -> list[tuple[tuple[Message, ...], Claim | None]]:
    """Complete each run and take the next message of its lane."""
    handed_on = complete(tx, [completed for completed, _ in requests])
    claims = claim_next(tx, [wanted for _, wanted in requests])
    return list(zip(handed_on, claims, strict=True))


def release_next(tx: Transaction, results: Sequence[tuple[tuple[Message, ...], Claim | None]]) -> list[None]:
    """Give back the next claims of callers that have gone; what they completed stays completed."""
    return release_orphans(tx, [held for _, held in results])


class _Completion:
    """Collects what finished runs leave behind, and writes each table once."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._inflow = Inflow(tx)
        self._finished: list[tuple[object, ...]] = []
        self._closed: list[Message] = []
        self._responses: list[tuple[object, ...]] = []
        self._posts: list[tuple[object, ...]] = []

    def add(self, claim: Claim, outcome: Outcome) -> tuple[Message, ...]:
        tx, primary = self._tx, claim.primary
        event_id = tx.next_event_id()
        history_id = self._inflow.add_history(primary, Role.ASSISTANT, outcome.answer, event_id)
        tx.record(_done(tx, claim, outcome, history_id), primary)
        for message in claim.messages:
            self._finished.append((message.id, claim.id, primary.message_id, tx.now, event_id))
            self._closed.append(message)
        if not claim.is_room_only:
            text = outcome.answer if outcome.response is None else outcome.response
            self._responses.append(row_of(respond(tx, primary, text, outcome.files, outcome.metadata)))
        for fact in outcome.facts:
            tx.record(fact, primary)
        if not outcome.handoffs and not outcome.posts:
            return ()
        hop = max(message.hop for message in claim.messages) + 1
        handed_on = [self._hand_off(primary, handoff, hop) for handoff in outcome.handoffs]
        for post in outcome.posts:
            handed_on += self._post(primary, post, hop)
        return tuple(handed_on)

    def write(self) -> None:
        tx = self._tx
        tx.connection.executemany(tx.sql["finish_message"], self._finished)
        tx.connection.executemany(tx.sql["insert_response"], self._responses)
        tx.connection.executemany(tx.sql["insert_chat_message"], self._posts)
        # First what comes in, then what goes out: a conversation that is handed on never looks ended in between.
        self._inflow.write()
        close_conversations(tx, self._closed)

    def _hand_off(self, primary: Message, handoff: Handoff, hop: int) -> Message:
        message = self._inflow.add(
            NewMessage(
                message=handoff.message,
                agent=handoff.to,
                channel=primary.channel,
                sender=primary.sender,
                sender_id=primary.sender_id,
                message_id=MessageId(self._tx.new_id("internal")),
                from_agent=primary.agent,
                team=handoff.team,
                conversation_id=primary.conversation_id,
                parent_message_id=primary.message_id,
                hop=hop,
            )
        )
        self._tx.record(ChainHandoff(handoff.team, primary.agent, handoff.to, message.message_id), primary)
        return message

    def _post(self, primary: Message, post: RoomPost, hop: int) -> list[Message]:
        tx = self._tx
        event_id = tx.next_event_id()
        line = ChatMessage(tx.next_id("chat_messages"), post.team, primary.agent, post.message, tx.now)
        self._posts.append((*line, event_id))
        tx.record(ChatPosted(line._asdict()), primary)
        return [
            self._inflow.add(
                NewMessage(
                    message=post.prompt,
                    agent=member,
                    channel=ROOM_CHANNEL,
                    sender=primary.agent,
                    message_id=MessageId(tx.new_id("chat")),
                    from_agent=primary.agent,
                    team=post.team,
                    conversation_id=primary.conversation_id,
                    parent_message_id=primary.message_id,
                    hop=hop,
                    priority=ROOM_PRIORITY,
                )
            )
            for member in post.members
        ]


def _done(tx: Transaction, claim: Claim, outcome: Outcome, history_id: int) -> ChainStepDone:
    primary = claim.primary
    return ChainStepDone(
        claim_id=claim.id,
        ids=tuple([message.id for message in claim.messages]),
        message_ids=tuple([message.message_id for message in claim.messages]),
        channel=primary.channel,
        sender=primary.sender,
        content=outcome.answer,
        history_id=history_id,
        team_id=primary.team,
        duration_ms=max(0, tx.now - claim.started_at),
        usage=outcome.usage,
    )
