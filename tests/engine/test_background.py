"""Background tasks: restarted after any fault, ever later, and named for as long as they fail."""

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
    """A loop that does what its test lists: raise an error, or go through one good round."""

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


async def test_a_task_fails_until_a_round_goes_well(tasks: SupervisedTasks, pauses: list[float]) -> None:
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


async def test_a_task_that_was_well_for_a_while_begins_with_a_short_pause(
    tasks: SupervisedTasks, pauses: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "RESET_AFTER", timedelta())
    await run(tasks, ValueError("x"), ValueError("x"), None, ValueError("x"))

    assert pauses == [1, 2, 1]
    assert len(errors(caplog)) == 2


async def test_the_same_fault_is_logged_once_and_another_one_again(
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
    ids=["ours", "system", "fault"],
)
async def test_a_fault_of_the_program_is_logged_with_its_stack(
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


async def test_a_task_that_ends_is_started_again(tasks: SupervisedTasks, pauses: list[float]) -> None:
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


async def test_a_stopped_task_has_ended_and_is_named_no_more(tasks: SupervisedTasks) -> None:
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
