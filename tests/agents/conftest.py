"""Agent folders for the tests, and a user without superuser rights."""

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
UNPRIVILEGED_UID = 65_534

PlainUser = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / "coder"


@pytest.fixture
def workspace(folder: Path) -> Workspace:
    return prepare(folder, CODER)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own is private."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path
        path.chmod(0o755)


@pytest.fixture
def plain_user() -> PlainUser:
    """A context manager that drops superuser rights."""
    # Read once per process and cached: read them before the rights are dropped.
    default_skills()

    @contextmanager
    def entered() -> Iterator[None]:
        me = os.geteuid()
        if me == 0:
            os.seteuid(UNPRIVILEGED_UID)
        try:
            yield
        finally:
            os.seteuid(me)

    return entered
