"""What a finished run hands on: work for teammates and lines for rooms, as far as the brakes let it go."""

from collections import Counter
from typing import Final

from tinyagi.domain.brakes import Brake, Brakes
from tinyagi.domain.events import ChainHandoff, ChatPosted
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import Claim, Handoff, Message, NewMessage, Outcome, teammate_thread
from tinyagi.store.sqlite.operations.enqueue import Inflow
from tinyagi.store.sqlite.operations.rooms import delivery, new_line
from tinyagi.store.sqlite.transaction import Transaction

MINUTE_MS: Final = 60_000

Refused = dict[Brake, list[AgentId]]


class HandOn:
    """Collects what runs hand on in one transaction; the messages themselves go into the inflow."""

    def __init__(self, tx: Transaction, inflow: Inflow) -> None:
        self._tx = tx
        self._inflow = inflow
        self._traffic = _Traffic(tx)
        self._lines: list[tuple[object, ...]] = []

    def add(self, claim: Claim, outcome: Outcome) -> tuple[tuple[Message, ...], Refused]:
        """The messages that were handed on, and whom a brake kept from getting one."""
        tx, primary = self._tx, claim.primary
        leaving = _Leaving(tx, self._inflow, self._traffic, claim, outcome.brakes)
        for handoff in outcome.handoffs:
            message = leaving.send(_handoff_message(primary, handoff), "internal")
            if message is not None:
                tx.record(ChainHandoff(handoff.team, claim.agent, handoff.to, message.message_id), primary)
        for post in outcome.posts:
            line = new_line(tx, post, claim.agent)
            self._lines.append((*line, tx.record(ChatPosted(line._asdict()), primary)))
            for member in post.members:
                leaving.send(delivery(post, member, claim.agent), "chat")
        return tuple(leaving.sent), leaving.refused

    def write(self) -> None:
        self._tx.connection.executemany(self._tx.sql["insert_chat_message"], self._lines)


class _Leaving:
    """What leaves one run: each message descends from its primary, or is refused."""

    def __init__(
        self, tx: Transaction, inflow: Inflow, traffic: "_Traffic", claim: Claim, brakes: Brakes | None
    ) -> None:
        self._tx = tx
        self._inflow = inflow
        self._traffic = traffic
        self._primary = claim.primary
        self._hop = max(message.hop for message in claim.messages) + 1
        self._brakes = brakes
        self.sent: list[Message] = []
        self.refused: Refused = {}

    def send(self, new: NewMessage, prefix: str) -> Message | None:
        """Store the message; None when a brake refuses it."""
        conversation_id = self._primary.conversation_id
        new = new._replace(
            from_agent=self._primary.agent,
            conversation_id=conversation_id,
            parent_message_id=self._primary.message_id,
            hop=self._hop,
        )
        brake = None if self._brakes is None else self._traffic.judge(new, conversation_id, self._brakes)
        if brake is not None:
            self.refused.setdefault(brake, []).append(new.agent)
            return None
        self._traffic.count(new, conversation_id)
        message = self._inflow.add(new, self._tx.new_id(prefix))
        self.sent.append(message)
        return message


class _Traffic:
    """Messages between agents as the brakes see them: what is stored, and what this transaction adds to it."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._in_conversation: Counter[str] = Counter()
        self._to_agent: Counter[str] = Counter()

    def judge(self, new: NewMessage, conversation_id: str, brakes: Brakes) -> Brake | None:
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
        # Also when the run was for a room: the room's own line is for posts.
        thread=teammate_thread(primary.agent, primary.conversation_id),
    )
