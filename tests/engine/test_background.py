"""Background tasks: restarted after any error with growing pauses, and reported while they fail."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import timedelta

import pytest

from tests.support.clock import FakeClock
from tinyagi.domain.errors import StoreBusy
from tinyagi.engine import background
from tinyagi.engine.background import SupervisedTasks


class Script:
    """A loop that follows the test's list: raise an error, or complete one round."""

    def __init__(self, *rounds: Exception | None) -> None:
        self.rounds = list(rounds)
        self.done = asyncio.Event()

    async def __call__(self) -> AsyncGenerator[None, None]:
        while self.rounds:
            error = self.rounds.pop(0)
            if error is not None:
                raise error
            yield
        self.done.set()
        await asyncio.Event().wait()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before each restart, which take no time."""
    taken: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        taken.append(seconds)
        await sleep(0)

    monkeypatch.setattr("tinyagi.engine.background.asyncio.sleep", note)
    return taken


@pytest.fixture
async def tasks() -> AsyncIterator[SupervisedTasks]:
    supervised = SupervisedTasks(FakeClock())
    yield supervised
    await supervised.stop()


async def run(tasks: SupervisedTasks, *rounds: Exception | None) -> None:
    script = Script(*rounds)
    tasks.start("tidy", script)
    await script.done.wait()


async def test_the_pause_before_a_restart_grows_up_to_half_a_minute(
    tasks: SupervisedTasks, pauses: list[float]
) -> None:
    await run(tasks, *[ValueError("x")] * 7)

    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert tasks.states["tidy"].restarts == 7


async def test_a_task_is_failing_until_a_round_succeeds(tasks: SupervisedTasks, pauses: list[float]) -> None:
    await run(tasks, None, ValueError("one"), ValueError("two"))
    failing = tasks.states["tidy"]
    assert (failing.failing, failing.last_error) == (True, "ValueError: two")
    await tasks.stop("tidy")

    await run(tasks, ValueError("one"), None)
    running = tasks.states["tidy"]
    assert (running.failing, running.restarts, running.last_error) == (False, 1, "ValueError: one")


async def test_one_good_round_does_not_shorten_the_pause(tasks: SupervisedTasks, pauses: list[float]) -> None:
    await run(tasks, ValueError("x"), None, ValueError("x"), None, ValueError("x"))

    assert pauses == [1, 2, 4]


async def test_the_pause_is_reset_after_a_task_ran_well(
    tasks: SupervisedTasks, pauses: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "RESET_AFTER", timedelta())
    await run(tasks, ValueError("x"), ValueError("x"), None, ValueError("x"))

    assert pauses == [1, 2, 1]
    assert len(errors(caplog)) == 2


async def test_a_repeated_error_is_logged_once(
    tasks: SupervisedTasks, pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    await run(tasks, ValueError("x"), ValueError("x"), None, ValueError("x"), ValueError("y"))

    assert [record.getMessage() for record in errors(caplog)] == [
        "the background task tidy failed, next start in 1 s: ValueError: x",
        "the background task tidy failed, next start in 8 s: ValueError: y",
    ]


@pytest.mark.parametrize(
    ("error", "has_stack"),
    [
        (StoreBusy("The database is locked."), False),
        (OSError("No space left on device"), False),
        (KeyError("x"), True),
    ],
    ids=["expected", "system", "bug"],
)
async def test_an_unexpected_error_is_logged_with_its_stack(
    tasks: SupervisedTasks,
    pauses: list[float],
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    *,
    has_stack: bool,
) -> None:
    await run(tasks, error)

    (record,) = errors(caplog)
    assert bool(record.exc_info) is has_stack


async def test_a_task_that_ends_is_restarted(tasks: SupervisedTasks, pauses: list[float]) -> None:
    begun = 0
    often = asyncio.Event()

    async def ending() -> AsyncGenerator[None, None]:
        nonlocal begun
        begun += 1
        if begun == 3:
            often.set()
        yield

    tasks.start("tidy", ending)
    await often.wait()

    assert "ended" in (tasks.states["tidy"].last_error or "")


async def test_a_stopped_task_ends_and_has_no_state(tasks: SupervisedTasks) -> None:
    ended = []

    async def loop(name: str) -> AsyncGenerator[None, None]:
        try:
            while True:
                await asyncio.sleep(0)
                yield
        finally:
            ended.append(name)

    for name in ("first", "second", "third"):
        tasks.start(name, lambda name=name: loop(name))  # type: ignore[misc]
    await asyncio.sleep(0)
    await tasks.stop("second")
    assert (ended, list(tasks.states)) == (["second"], ["first", "third"])

    await tasks.stop()
    assert (sorted(ended), list(tasks.states)) == (["first", "second", "third"], [])


def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.WARNING]
