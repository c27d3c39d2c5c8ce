"""One conversation from the lake, in the store's own types: its messages, each with its attempts."""

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date
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
from tinyagi.domain.instants import utc_day
from tinyagi.domain.limits import Usage
from tinyagi.domain.messages import Message, Status
from tinyagi.domain.traces import Attempt, TracedMessage
from tinyagi.pipeline.serve.lake_reader import DESCENDING, PinnedLake, PinnedTable, Row, plain_rows
from tinyagi.pipeline.tables.gold import CONVERSATIONS
from tinyagi.pipeline.tables.model import FIRST_DATE
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
_BEYOND_ALL_IDS: Final = 2**63 - 1


def traced_messages(
    lake: PinnedLake, conversation: ConversationId, started_at: int | None
) -> tuple[TracedMessage, ...]:
    """The messages of the conversation that started at `started_at`, or of the newest with this id."""
    found, messages, runs = (lake.table(table.name) for table in (CONVERSATIONS, MESSAGES, RUNS))
    if found is None or messages is None or runs is None:
        return ()
    summary = _find(found, conversation, started_at)
    if summary is None or summary["started_at"] is None:
        return ()
    day = summary["date"]
    rows = [row for row in _on(messages, day, summary) if row["status"] != _DELETED]
    own_runs = _on(runs, day, summary)
    team = summary["team"] or next((run["team"] for run in own_runs if run["team"]), None)
    attempts = _Attempts(own_runs)
    incomplete = [row for row in rows if (row["runs"] or 0) > len(attempts.runs_of(row["id"]))]
    if incomplete:
        attempts = _Attempts([*own_runs, *_shared_runs(runs, incomplete, {run["claim_id"] for run in own_runs})])
    return tuple(
        TracedMessage(message, attempts.of(message), _answer(row))
        for row in sorted(rows, key=lambda row: int(row["id"]))
        for message in [_message(row, team)]
    )


def _find(table: PinnedTable, conversation: str, started_at: int | None) -> Row | None:
    where = pc.field("conversation_id") == conversation
    files = table.files
    if started_at is not None:
        where &= table.during("started_at", started_at, started_at)
        day = max(FIRST_DATE, utc_day(started_at))
        files = table.of_days(day, day)
    newest = plain_rows(table.newest_by_day(where, [("started_at", DESCENDING)], 1, files))
    return newest[0] if newest else None


def _on(table: PinnedTable, day: date, conversation: Row) -> list[Row]:
    """The rows of the conversation."""
    start = conversation["started_at"]
    belongs = pc.field("conversation_id") == conversation["conversation_id"]
    belongs &= table.during("conversation_started_at", start, start)
    return plain_rows(table.scan(table.of_days(day, day), belongs))


def _shared_runs(table: PinnedTable, messages: Sequence[Row], known: Set[str]) -> list[Row]:
    """Runs that these messages shared with a message of another conversation, whose day gives their partition."""
    first = min(row["created_at"] for row in messages)
    last = max(row["updated_at"] for row in messages)
    day = max(FIRST_DATE, utc_day(last))
    runs = table.scan(table.of_days(None, day), table.during("started_at", first, last))
    ids = runs["ids"].combine_chunks()
    shared = pc.is_in(pc.list_flatten(ids), pa.array([row["id"] for row in messages], pa.int64()))
    places = pc.unique(pc.list_parent_indices(ids).filter(shared))
    return [run for run in plain_rows(runs.take(places)) if run["claim_id"] not in known]


class _Attempts:
    """Runs by the messages in them."""

    def __init__(self, runs: Iterable[Row]) -> None:
        self._by_message: dict[int, list[Row]] = {}
        # A message is in one run at a time, so its runs are ordered by their ends; a run without an end is the last.
        for run in sorted(runs, key=lambda run: (run["end_event_id"] or _BEYOND_ALL_IDS, run["started_at"] or 0)):
            for number in _members(run):
                self._by_message.setdefault(number, []).append(run)

    def runs_of(self, message: int) -> Sequence[Row]:
        return self._by_message.get(message, ())

    def of(self, message: Message) -> tuple[Attempt, ...]:
        return tuple(_attempt(run, message) for run in self.runs_of(message.id))


def _members(run: Row) -> list[int]:
    """`messages.id` of all messages, in order; a run that started before the lake is known only by its results."""
    ids: list[int] = run["ids"] or [result["id"] for result in run["results"] or ()]
    return ids


def _attempt(run: Row, message: Message) -> Attempt:
    result = (
        None if run["is_done"] else next((entry for entry in run["results"] or () if entry["id"] == message.id), None)
    )
    outcome = ChainStepDone.type if run["is_done"] else _OUTCOMES[result["outcome"] if result else RUNNING]
    ended_at = run["ended_at"]
    started_at = run["started_at"]
    is_primary = _members(run)[0] == message.id
    return Attempt(
        claim_id=run["claim_id"],
        number=(result["attempt"] if result else run["attempt"]) or message.attempt,
        started_at=(ended_at or 0) - (run["told_ms"] or 0) if started_at is None else started_at,
        wait_ms=run["wait_ms"] or 0,
        ended_at=None if outcome == RUNNING else ended_at,
        outcome=outcome,
        reason=result["reason"] if result else None,
        usage=_usage(run) if outcome in _WITH_USAGE and is_primary else None,
    )


def _answer(row: Row) -> str | None:
    """The answer, if the message was first in its run; the lake stores an empty text as null."""
    was_first = row["status"] == Status.COMPLETED and row["answered_by"] == row["message_id"]
    return row["answer"] or ("" if was_first else None)


def _usage(run: Row) -> Usage | None:
    usage = Usage(
        run["input_tokens"], run["output_tokens"], run["cache_tokens"], run["cost"], run["provider"], run["model"]
    )
    return None if usage == Usage() else usage


def _message(row: Row, team: str | None) -> Message:
    status = Status(row["status"])
    # Texts of a forgotten person are null; a reset text is empty or null.
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
        # The lake stores the latest claim, the store only an active one.
        claim_id=ClaimId(row["claim_id"]) if status is Status.PROCESSING and row["claim_id"] else None,
        started_at=row["started_at"],
        answered_by=MessageId(row["answered_by"]) if row["answered_by"] else None,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        last_event_id=row["last_event_id"],
    )


def _maybe_agent(name: str | None) -> AgentId | None:
    return None if name is None else AgentId(name)
