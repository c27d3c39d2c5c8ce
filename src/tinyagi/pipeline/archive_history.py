"""Lines of histories and rooms from the lake, as the store gives them."""

import pyarrow.compute as pc

from tinyagi.domain.ids import AgentId, MessageId, TeamId
from tinyagi.domain.responses import ChatMessage, HistoryEntry, Role
from tinyagi.pipeline.archive_tables import Row, Snapshot
from tinyagi.pipeline.tables.silver import AGENT_MESSAGES, CHAT_MESSAGES


def agent_lines(
    snapshot: Snapshot, agent: AgentId | None, *, since: int, before: int | None, limit: int
) -> tuple[HistoryEntry, ...]:
    table = snapshot.table(AGENT_MESSAGES.name)
    if table is None:
        return ()
    wanted = pc.scalar(True) if agent is None else pc.field("agent_id") == agent
    return tuple(map(_entry, table.newest_by_id(wanted, since=since, before=before, limit=limit)))


def room_lines(
    snapshot: Snapshot, team: TeamId, *, since: int, before: int | None, limit: int
) -> tuple[ChatMessage, ...]:
    table = snapshot.table(CHAT_MESSAGES.name)
    if table is None:
        return ()
    wanted = pc.field("team_id") == team
    return tuple(map(_line, table.newest_by_id(wanted, since=since, before=before, limit=limit)))


def _entry(row: Row) -> HistoryEntry:
    # Texts are null where somebody was forgotten.
    return HistoryEntry(
        row["id"],
        AgentId(row["agent_id"]),
        Role(row["role"]),
        row["channel"],
        row["sender"] or "",
        MessageId(row["message_id"] or ""),
        row["content"] or "",
        row["created_at"],
    )


def _line(row: Row) -> ChatMessage:
    return ChatMessage(
        row["id"], TeamId(row["team_id"]), row["from_agent"] or "", row["message"] or "", row["created_at"]
    )
