"""A conversation from the lake, told as the store tells it: its messages, each with its runs."""

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import UTC, date, datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tinyagi.domain.events import (
    ChainStepDone,
    MessageDead,
    MessageFailed,
    MessageRecovered,
    MessageReleased,
    MessageStopped,
)
from tinyagi.domain.ids import AgentId, ClaimId, ConversationId, MessageId, TeamId
from tinyagi.domain.messages import Message, Status, Usage
from tinyagi.domain.traces import Attempt, TracedMessage
from tinyagi.pipeline.archive_tables import DESCENDING, PinnedTable, Row, Snapshot, plain_rows
from tinyagi.pipeline.tables.gold import CONVERSATIONS
from tinyagi.pipeline.tables.silver import MESSAGES, RUNS

RUNNING: Final = "running"
_OUTCOMES: Final[Mapping[str, str]] = {
    "completed": ChainStepDone.type,
    "failed": MessageFailed.type,
    "dead": MessageDead.type,
    "stopped": MessageStopped.type,
    "released": MessageReleased.type,
    "recovered": MessageRecovered.type,
    RUNNING: RUNNING,
}
_WITH_USAGE: Final = frozenset({ChainStepDone.type, MessageFailed.type, MessageDead.type})
_DELETED: Final = "deleted"
_EARLIEST: Final = date(2020, 1, 1)
"""No partition is older, whatever the clock said."""
_BEYOND_ALL_IDS: Final = 2**63 - 1


def traced_messages(
    snapshot: Snapshot, conversation: ConversationId, started_at: int | None
) -> tuple[TracedMessage, ...]:
    """The messages of the conversation that began then, or of the newest of that name."""
    found, messages, runs = (snapshot.table(table.name) for table in (CONVERSATIONS, MESSAGES, RUNS))
    if found is None or messages is None or runs is None:
        return ()
    summary = _find(found, conversation, started_at)
    if summary is None:
        return ()
    of_it = (pc.field("conversation_id") == conversation) & (
        pc.field("conversation_started_at") == summary["started_at"]
    )
    day = summary["date"]
    rows = [row for row in _on(messages, day, of_it) if row["status"] != _DELETED]
    runs_of_it = _on(runs, day, of_it)
    team = summary["team"] or next((run["team"] for run in runs_of_it if run["team"]), None)
    attempts = _Attempts(runs_of_it)
    lacking = [row for row in rows if (row["runs"] or 0) > len(attempts.runs_of(row["id"]))]
    if lacking:
        attempts = _Attempts([*runs_of_it, *_of_others(runs, lacking, {run["claim_id"] for run in runs_of_it})])
    return tuple(
        TracedMessage(message, attempts.of(message), _answer(row))
        for row in sorted(rows, key=lambda row: int(row["id"]))
        for message in [_message(row, team)]
    )


def _find(table: PinnedTable, conversation: str, started_at: int | None) -> Row | None:
    where = pc.field("conversation_id") == conversation
    files = table.files
    if started_at is not None:
        where &= pc.field("started_at") == started_at
        day = max(_EARLIEST, datetime.fromtimestamp(started_at / 1000, UTC).date())
        files = table.of_days(day, day)
    newest = plain_rows(table.newest_by_day(where, [("started_at", DESCENDING)], 1, files))
    return newest[0] if newest else None


def _on(table: PinnedTable, day: date, where: pc.Expression) -> list[Row]:
    return plain_rows(table.scan(table.of_days(day, day), where))


def _of_others(table: PinnedTable, messages: Sequence[Row], known: Set[str]) -> list[Row]:
    """Runs that these messages shared with one of another conversation, which led them and says where they lie."""
    first = min(row["created_at"] for row in messages)
    last = max(row["updated_at"] for row in messages)
    day = max(_EARLIEST, datetime.fromtimestamp(last / 1000, UTC).date())
    began = pc.field("started_at")
    runs = table.scan(table.of_days(None, day), (began >= first) & (began <= last))
    ids = runs["ids"].combine_chunks()
    shared = pc.is_in(pc.list_flatten(ids), pa.array([row["id"] for row in messages], pa.int64()))
    places = pc.unique(pc.list_parent_indices(ids).filter(shared))
    return [run for run in plain_rows(runs.take(places)) if run["claim_id"] not in known]


class _Attempts:
    """Runs by the messages that took part in them."""

    def __init__(self, runs: Iterable[Row]) -> None:
        self._by_message: dict[int, list[Row]] = {}
        # A message is in one run at a time, so the order of their ends is that of its runs; one that runs is the last.
        for run in sorted(runs, key=lambda run: (run["end_event_id"] or _BEYOND_ALL_IDS, run["started_at"] or 0)):
            for number in _members(run):
                self._by_message.setdefault(number, []).append(run)

    def runs_of(self, message: int) -> Sequence[Row]:
        return self._by_message.get(message, ())

    def of(self, message: Message) -> tuple[Attempt, ...]:
        return tuple(_attempt(run, message) for run in self.runs_of(message.id))


def _members(run: Row) -> list[int]:
    """`messages.id` of all, the first one first; a run whose beginning is older than the lake is known by its ends."""
    ids: list[int] = run["ids"] or [result["id"] for result in run["results"] or ()]
    return ids


def _attempt(run: Row, message: Message) -> Attempt:
    result = None if run["is_done"] else next((one for one in run["results"] or () if one["id"] == message.id), None)
    outcome = ChainStepDone.type if run["is_done"] else _OUTCOMES[result["outcome"] if result else RUNNING]
    ended_at = run["ended_at"]
    began_at = run["started_at"]
    is_primary = _members(run)[0] == message.id
    return Attempt(
        claim_id=run["claim_id"],
        number=(result["attempt"] if result else run["attempt"]) or message.attempt,
        started_at=(ended_at or 0) - (run["told_ms"] or 0) if began_at is None else began_at,
        wait_ms=run["wait_ms"] or 0,
        ended_at=None if outcome == RUNNING else ended_at,
        outcome=outcome,
        reason=result["reason"] if result else None,
        usage=_usage(run) if outcome in _WITH_USAGE and is_primary else None,
    )


def _answer(row: Row) -> str | None:
    """What it led a run to; the lake keeps no empty text."""
    has_led = row["status"] == Status.COMPLETED and row["answered_by"] == row["message_id"]
    return row["answer"] or ("" if has_led else None)


def _usage(run: Row) -> Usage | None:
    usage = Usage(
        run["input_tokens"], run["output_tokens"], run["cache_tokens"], run["cost"], run["provider"], run["model"]
    )
    return None if usage == Usage() else usage


def _message(row: Row, team: str | None) -> Message:
    status = Status(row["status"])
    # Texts are null where somebody was forgotten; what was taken back is an empty text or null.
    return Message(
        id=row["id"],
        message_id=MessageId(row["message_id"]),
        channel=row["channel"],
        sender=row["sender"] or "",
        sender_id=row["sender_id"],
        message=row["message"] or "",
        agent=AgentId(row["agent"]),
        from_agent=_maybe_agent(row["from_agent"]),
        files=row["files"],
        conversation_id=ConversationId(row["conversation_id"]),
        conversation_started_at=row["conversation_started_at"],
        conversation_team=None if team is None else TeamId(team),
        parent_message_id=None if row["parent_message_id"] is None else MessageId(row["parent_message_id"]),
        hop=row["hop"] or 0,
        team=None if row["team"] is None else TeamId(row["team"]),
        thread=row["thread"] or "",
        priority=row["priority"] or 0,
        status=status,
        retry_count=row["retry_count"] or 0,
        last_error=row["last_error"] or None,
        available_at=row["available_at"] or 0,
        # The lake keeps the latest claim, the store only one that is held.
        claim_id=ClaimId(row["claim_id"]) if status is Status.PROCESSING and row["claim_id"] else None,
        started_at=row["started_at"],
        answered_by=MessageId(row["answered_by"]) if row["answered_by"] else None,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        last_event_id=row["last_event_id"],
    )


def _maybe_agent(name: str | None) -> AgentId | None:
    return None if name is None else AgentId(name)
