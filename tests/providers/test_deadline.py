"""The two time limits of a run, cancellation and other errors."""

import asyncio
from datetime import timedelta

import pytest

from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.runs import RunLimits
from tinyagi.providers.base import Deadline, RunFailed

SHORT = timedelta(milliseconds=20)
LONG = timedelta(hours=1)


async def _failure(limits: RunLimits) -> Failure:
    with pytest.raises(RunFailed) as caught:
        async with Deadline(limits):
            await asyncio.Event().wait()
    return caught.value.failure


async def test_a_run_over_its_time_limit_ends_and_names_the_limit() -> None:
    failure = await _failure(RunLimits(run=SHORT))
    assert failure.kind is FailureKind.TIMEOUT
    assert "(timeout_seconds)" in failure.reason
    assert "0.02 s" in failure.reason


async def test_a_silent_run_ends_and_names_the_idle_limit() -> None:
    failure = await _failure(RunLimits(run=LONG, idle=SHORT))
    assert failure.kind is FailureKind.TIMEOUT
    assert "(idle_timeout_seconds)" in failure.reason


async def test_the_run_limit_is_named_when_it_is_the_shorter_one() -> None:
    failure = await _failure(RunLimits(run=SHORT, idle=LONG))
    assert "(timeout_seconds)" in failure.reason


async def test_activity_extends_the_idle_limit() -> None:
    async with Deadline(RunLimits(run=LONG, idle=timedelta(minutes=1))) as deadline:
        before = deadline._timeout.when()
        assert before is not None
        deadline.touch()
        after = deadline._timeout.when()
        assert after is not None
        assert after > before


async def test_activity_does_not_extend_the_run_limit() -> None:
    async def live() -> None:
        async with Deadline(RunLimits(run=SHORT, idle=LONG)) as deadline:
            while True:
                deadline.touch()
                await asyncio.sleep(0)

    with pytest.raises(RunFailed) as caught:
        await live()
    assert "(timeout_seconds)" in caught.value.failure.reason


async def test_activity_without_an_idle_limit_changes_nothing() -> None:
    async with Deadline(RunLimits(run=LONG)) as deadline:
        deadline.touch()


async def test_a_cancellation_is_not_a_timeout() -> None:
    begun = asyncio.Event()

    async def work() -> None:
        async with Deadline(RunLimits(run=LONG, idle=LONG)):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_a_cancellation_wins_over_a_timeout() -> None:
    begun, fired = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        async with Deadline(RunLimits(run=SHORT)):
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                fired.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await begun.wait()
    await fired.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_run_passes_unchanged() -> None:
    with pytest.raises(TimeoutError, match="of a socket"):
        async with Deadline(RunLimits(run=LONG)):
            raise TimeoutError("of a socket")


@pytest.mark.parametrize(
    ("limit", "words"), [(timedelta(seconds=90), "90 s"), (timedelta(minutes=30), "30 min"), (timedelta(0), "0 s")]
)
async def test_durations_are_shown_in_a_fitting_unit(limit: timedelta, words: str) -> None:
    deadline = Deadline(RunLimits(run=limit))
    assert words in deadline._reason(None)
