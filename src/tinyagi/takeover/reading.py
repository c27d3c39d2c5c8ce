"""Reads an old home and says what a takeover would do. Changes nothing, in neither home."""

from dataclasses import replace

from tinyagi.settings.home import Home
from tinyagi.takeover.agenda import plan_pairing, plan_schedules
from tinyagi.takeover.board import plan_board
from tinyagi.takeover.ledger import Ledger
from tinyagi.takeover.merging import plan_settings
from tinyagi.takeover.original import OldHome
from tinyagi.takeover.parts import Part, Skipped
from tinyagi.takeover.plan import DatabaseMove, Plan
from tinyagi.takeover.queues import plan_queue
from tinyagi.takeover.state import rehearse
from tinyagi.takeover.trees import plan_files


async def make_plan(old: OldHome, home: Home, *, now: int) -> Plan:
    """Raise a TinyAGIError when a file cannot be understood or a database cannot be taken; nothing is changed then."""
    home = replace(home, path=home.path.resolve())
    settings = plan_settings(old, home)
    ledger = Ledger(home)
    state = await rehearse(home.database)
    queue = plan_queue(old, home, state, ledger)
    if queue.move is DatabaseMove.COPY and queue.file is not None:
        await rehearse(queue.file)
    board = plan_board(old, settings.settings, state, ledger, now)
    schedules, schedules_part = plan_schedules(old, settings.settings, state, ledger, now)
    pairings, pairings_part = plan_pairing(old, state, ledger, now)
    in_place = old.path == home.path
    files, files_part = ((), Part("files")) if in_place else plan_files(old, home)
    parts = (*settings.parts, *queue.parts, *board.parts, schedules_part, pairings_part, files_part, _left(old))
    return Plan(
        source=old.path,
        home=home,
        parts=tuple(part for part in parts if not part.is_empty),
        conflicts=settings.conflicts,
        notes=() if in_place else (f"{old.path} stays as it is. Messages may name files in it: keep it for a while.",),
        settings=settings.raw,
        database=queue.move,
        queue_file=queue.file,
        projects=board.projects,
        tasks=board.tasks,
        comments=board.comments,
        schedules=schedules,
        pairings=pairings,
        files=files,
    )


def _left(old: OldHome) -> Part:
    """Folders that mean nothing to this program."""
    left = []
    waiting = sorted((old.path / "queue").glob("incoming/*.json"))
    if waiting:
        left.append(Skipped("queue/incoming", f"{len(waiting)} messages wait in files of the first version: send them"))
    return Part("other", skipped=tuple(left))
