"""An old home, a new home, and helpers for imports."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.old_home import make_old_home
from tinyagi.legacy.apply import apply_plan
from tinyagi.legacy.old_home import OldHome
from tinyagi.legacy.plan import ImportPlan, ImportReport, PlanPart
from tinyagi.legacy.planner import make_plan
from tinyagi.settings.home import Home
from tinyagi.store.store import Store
from tinyagi.wiring import open_inbox

NOW = 1_790_000_000_000
BOARD = {
    "SD-2": ("Draw the boxes", "in_progress", "coder", "Half done", "Hurry"),
    "SD-5": ("Draw the arrows", "in_progress", "dev"),
    "SITED-1": ("Write it down", "done", ""),
    "T-3": ("Water the plants", "backlog", ""),
}
"""The board of the old home: see `board_of`."""


@pytest.fixture
def old(tmp_path: Path) -> OldHome:
    return OldHome(make_old_home(tmp_path / ".tinyclaw", tinyclaw=True))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that does not exist yet."""
    return Home(tmp_path / "new")


async def planned(old: OldHome, home: Home) -> ImportPlan:
    return await make_plan(old, home, now=NOW)


async def imported(old: OldHome, home: Home) -> ImportReport:
    return await apply_plan(await planned(old, home), now=NOW)


@asynccontextmanager
async def store_of(home: Home) -> AsyncIterator[Store]:
    async with open_inbox(home) as (store, _):
        yield store


def part(plan: ImportPlan, name: str) -> PlanPart:
    return next((one for one in plan.parts if one.name == name), PlanPart(name))


def reasons(plan: ImportPlan, name: str) -> dict[str, str]:
    """The reasons for skipped things, by name."""
    return {one.name: one.reason for one in part(plan, name).skipped}


async def board_of(store: Store) -> dict[str, tuple[str, ...]]:
    """Tasks by identifier: title, status, assignee, comments."""
    board = {}
    for task in await store.board.tasks():
        comments = [comment.content for comment in await store.board.comments(task.id)]
        board[task.identifier] = (task.title, task.status, task.assignee or "", *comments)
    return board
