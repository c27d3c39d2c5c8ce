"""Folders of agents for the tests, and a user who may not do everything."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tinyagi.agents.skills import default_skills
from tinyagi.agents.workspace import Workspace, prepare
from tinyagi.domain.ids import AgentId
from tinyagi.domain.routing import Agent

CODER = Agent(AgentId("coder"), "Coder")
NOBODY = 65_534

PlainUser = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / "coder"


@pytest.fixture
def workspace(folder: Path) -> Workspace:
    return prepare(folder, CODER)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


@pytest.fixture
def plain_user() -> PlainUser:
    """Enter it to do without the rights that the superuser has and others have not."""
    # They are read once per process, with the rights of whoever comes first.
    default_skills()

    @contextmanager
    def entered() -> Iterator[None]:
        me = os.geteuid()
        if me == 0:
            os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(me)

    return entered
