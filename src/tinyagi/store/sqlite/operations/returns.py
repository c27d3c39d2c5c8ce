"""Returns: messages that got no answer, on their way back to pending or on to dead."""

from tinyagi.domain.events import Event
from tinyagi.domain.ids import ClaimId
from tinyagi.domain.messages import Message, Status
from tinyagi.domain.responses import dead_notice
from tinyagi.store.sqlite.operations.conversations import close_conversations, teams_of
from tinyagi.store.sqlite.operations.respond import notice, row_of
from tinyagi.store.sqlite.transaction import Transaction


class Returns:
    """Messages of one claim, or of none; each table is written once."""

    def __init__(self, tx: Transaction, claim_id: ClaimId | None) -> None:
        self.tx = tx
        self._claim_id = claim_id
        self._rows: list[tuple[object, ...]] = []
        self._dead: list[Message] = []
        self._notices: list[tuple[object, ...]] = []

    def add_pending(self, message: Message, retry_count: int, error: str | None, at: int, event: Event) -> None:
        self._add(message, Status.PENDING, retry_count, error, at, event)

    def add_dead(self, message: Message, retry_count: int, event: Event, reason: str) -> None:
        self._add(message, Status.DEAD, retry_count, reason, message.available_at, event)
        self._dead.append(message)
        self.add_notice(message, dead_notice(message.agent, reason))

    def add_notice(self, message: Message, text: str) -> None:
        """Tell the person who sent the message; a room post is nobody's."""
        if not message.is_room_post:
            self._notices.append(row_of(notice(self.tx, message, text)))

    def write(self) -> None:
        self.tx.connection.executemany(self.tx.sql["return_message"], self._rows)
        self.tx.connection.executemany(self.tx.sql["insert_response"], self._notices)
        if self._dead:
            close_conversations(self.tx, self._dead, teams_of(self.tx, self._dead))

    def _add(
        self, message: Message, status: Status, retry_count: int, error: str | None, at: int, event: Event
    ) -> None:
        event_id = self.tx.record(event, message)
        priority = message.priority if retry_count == message.retry_count else message.priority_once_tried
        self._rows.append((message.id, self._claim_id, status, retry_count, error, at, priority, self.tx.now, event_id))
