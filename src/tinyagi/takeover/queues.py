"""What becomes of the old queue: copied, brought to this version where it is, or left because there are two."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.settings.home import Home
from tinyagi.takeover.databases import QUEUE_TABLES, opened
from tinyagi.takeover.ledger import BEGUN, DONE, Ledger
from tinyagi.takeover.original import OldHome
from tinyagi.takeover.parts import Part, Skipped
from tinyagi.takeover.plan import DatabaseMove
from tinyagi.takeover.state import State

_NAMES: Final = {
    "messages": "messages",
    "responses": "responses",
    "chat_messages": "room lines",
    "agent_messages": "history",
}


@dataclass(frozen=True, slots=True)
class QueuePlan:
    move: DatabaseMove
    file: Path | None
    parts: tuple[Part, ...]


def plan_queue(old: OldHome, home: Home, state: State, ledger: Ledger) -> QueuePlan:
    if not old.queues:
        return QueuePlan(DatabaseMove.NONE, None, ())
    file, others = old.queues[0], old.queues[1:]
    is_home = file.resolve() == home.database.resolve()
    plan = _in_place(file) if is_home else _elsewhere(file, home, state, ledger)
    left = tuple(
        Skipped(str(other), f"{file.name} is taken for the queue; take this one over from a folder of its own")
        for other in others
        if other.resolve() != home.database.resolve() and sum(_counts(other).values()) > 0
    )
    return QueuePlan(plan.move, plan.file, (*plan.parts, Part("databases", skipped=left)))


def _in_place(file: Path) -> QueuePlan:
    with opened(file) as found:
        counts, is_original = found.counts(), found.is_original
    if is_original:
        return QueuePlan(DatabaseMove.IN_PLACE, file, _parts(taken=counts))
    return QueuePlan(DatabaseMove.NONE, None, _parts(there=counts))


def _elsewhere(file: Path, home: Home, state: State, ledger: Ledger) -> QueuePlan:
    counts = _counts(file)
    mark = ledger.database(file)
    ours = sum(_counts(home.database).values()) if home.database.is_file() else 0
    # Between the mark and the copy's taking its place nobody could write: rows there are those of the copy.
    if mark == DONE or (mark == BEGUN and ours):
        return QueuePlan(DatabaseMove.NONE, None, _parts(there=counts))
    if ours or not state.is_empty:
        reason = (
            f"{home.database} is in use, and two queues cannot be made one. "
            f"To use the old one instead, move {home.database} away and run this again"
        )
        left = Skipped(f"{file} ({sum(counts.values())} rows)", reason)
        return QueuePlan(DatabaseMove.NONE, None, (Part("queue", skipped=(left,)),))
    return QueuePlan(DatabaseMove.COPY, file, _parts(taken=counts))


def _counts(file: Path) -> dict[str, int]:
    with opened(file) as found:
        return found.counts()


def _parts(*, taken: dict[str, int] | None = None, there: dict[str, int] | None = None) -> tuple[Part, ...]:
    none = dict.fromkeys(QUEUE_TABLES, 0)
    return tuple(
        Part(_NAMES[table], taken=(taken or none)[table], there=(there or none)[table]) for table in QUEUE_TABLES
    )
