"""A home with plugins written by the test, a gate that their code can block on, and a queue of their log lines."""

import asyncio
import logging
import os
import textwrap
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from tinyagi.domain.events import RecordedEvent
from tinyagi.domain.ids import AgentId, ConversationId, MessageId
from tinyagi.plugins.plugin import Plugins
from tinyagi.plugins.specs import HookContext

CONTEXT: Final = HookContext(
    agent=AgentId("coder"),
    channel="telegram",
    sender="Ada",
    message_id=MessageId("telegram_00000001"),
    conversation_id=ConversationId("telegram_00000001"),
)
PATIENT: Final = timedelta(seconds=60)
"""A limit that only a hang reaches."""
SHORT: Final = timedelta(seconds=1)
"""A limit that tests wait for."""


def event(number: int = 1, event_type: str = "response_ready") -> RecordedEvent:
    return RecordedEvent(number, event_type, 1, None, None, None, "coder", {"response": {"number": number}}, 0)


def threads_of(name: str = "") -> list[threading.Thread]:
    """The living threads of one plugin, or of all."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"tinyagi-plugin-{name}")]


async def have_ended(name: str = "") -> bool:
    """Wait for the threads of one plugin, or of all; False when one still runs."""
    for thread in threads_of(name):
        await asyncio.to_thread(thread.join, 30)
    return not threads_of(name)


class PluginHome:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / "plugins"
        self._loaded: list[Plugins] = []

    def write(self, name: str, source: str, file: str = "plugin.py") -> Path:
        target = self.folder / name / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(source))
        return target

    async def load(
        self,
        *,
        folder: Path | None = None,
        limit: timedelta = PATIENT,
        disabled: tuple[str, ...] = (),
        entry_points: bool = False,
    ) -> Plugins:
        plugins = await Plugins.load(
            folder or self.folder, home=self.path, disabled=disabled, timeout=limit, entry_points=entry_points
        )
        self._loaded.append(plugins)
        return plugins

    async def close(self) -> None:
        for plugins in self._loaded:
            await plugins.close()


class Gate:
    """A named pipe: a reader in any thread blocks until the test opens it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._path = path

    async def open(self) -> None:
        """Wait for a reader and let it through."""
        os.close(await asyncio.to_thread(os.open, self._path, os.O_WRONLY))

    def release(self) -> None:
        """Let through all current and later readers."""
        # Opened for both ends, the pipe does not block readers; unlinked, it gets no new ones.
        both = os.open(self._path, os.O_RDWR)
        self._path.unlink()
        os.close(both)


class LogQueue(logging.Handler):
    """Queues the log lines of plugins as they arrive."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self._loop.call_soon_threadsafe(self._lines.put_nowait, record.getMessage())

    async def next(self) -> str:
        return await asyncio.wait_for(self._lines.get(), 60)


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[PluginHome]:
    home = PluginHome(tmp_path)
    yield home
    await home.close()
    assert await have_ended(), "a thread of a plugin was left behind"


@pytest.fixture
async def gate(home: PluginHome) -> AsyncIterator[Gate]:
    gate = Gate(home.path / "gate")
    yield gate
    gate.release()


@pytest.fixture
async def log_queue() -> AsyncIterator[LogQueue]:
    log_queue = LogQueue()
    logger = logging.getLogger("tinyagi.plugins")
    level = logger.level
    logger.addHandler(log_queue)
    logger.setLevel(logging.INFO)
    yield log_queue
    logger.removeHandler(log_queue)
    logger.setLevel(level)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Only the log lines about plugins; other parts of the process may log meanwhile."""
    of_plugins = logging.Filter("tinyagi.plugins")
    with caplog.at_level(logging.INFO, logger=of_plugins.name), caplog.filtering(of_plugins):
        yield caplog
