"""What a home's store holds, read from a copy: to look must not bring a database to this version."""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tinyagi.domain.board import Project, Task
from tinyagi.domain.pairing import PairedSender
from tinyagi.domain.schedules import Schedule
from tinyagi.settings.home import Home
from tinyagi.takeover.databases import opened
from tinyagi.wiring import open_inbox


@dataclass(frozen=True, slots=True)
class State:
    projects: tuple[Project, ...] = ()
    tasks: tuple[Task, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    approved: tuple[PairedSender, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.projects or self.tasks or self.schedules or self.approved)


async def rehearse(database: Path) -> State:
    """Open a copy of the database with the store; raise StoreError when the store would not take it."""
    with tempfile.TemporaryDirectory(prefix="tinyagi-takeover-") as folder:
        home = Home(Path(folder))
        if not await asyncio.to_thread(_copy, database, home.database):
            return State()
        async with open_inbox(home) as (store, _):
            return State(
                projects=await store.board.projects(),
                tasks=await store.board.tasks(),
                schedules=await store.schedules.all(),
                approved=await store.pairing.approved(),
            )


def _copy(database: Path, copy: Path) -> bool:
    """False when there is nothing to copy."""
    if not database.is_file():
        return False
    with opened(database) as found:
        found.copy_to(copy)
    return True
