"""Archiving in a running engine: it checks periodically, ends with the engine, and does not affect messages."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.engine.conftest import ADAPTERS, House
from tests.engine.test_archiving import BROKEN, SUCCESS, FakePipeline
from tinyagi.daemon.logs import logging_to
from tinyagi.domain.errors import StoreBusy
from tinyagi.engine.engine import Engine
from tinyagi.engine.pipeline_trigger import LakeLag, PipelineExit
from tinyagi.log_reader import tail
from tinyagi.wiring import open_engine


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent of the packages of this machine."""
    monkeypatch.setattr("tinyagi.wiring.pipeline_is_installed", lambda: True)


@asynccontextmanager
async def archiving_engine(house: House, pipeline: FakePipeline) -> AsyncIterator[Engine]:
    """A running engine that checks every 50 ms and starts this pipeline."""
    house.settings["pipeline"] = {"min_events": 1, "check_seconds": 0.05}
    house.write_settings()
    adapters = dict.fromkeys(ADAPTERS, house.puppet)
    async with open_engine(house.home, adapters=adapters, pipeline=pipeline) as engine:
        house._engine, pipeline.events = engine, engine.store.events
        await engine.start()
        yield engine
        await engine.stop(timedelta(seconds=5))


async def test_archiving_continues_after_a_store_error(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = FakePipeline()
    async with archiving_engine(house, pipeline) as engine:
        original = engine.archiving.lag
        failed = asyncio.Event()

        async def broken() -> LakeLag | None:
            failed.set()
            raise StoreBusy("The database is locked.")

        monkeypatch.setattr(engine.archiving, "lag", broken)
        await failed.wait()
        monkeypatch.setattr(engine.archiving, "lag", original)
        await pipeline.has_started.wait()

    assert pipeline.runs >= 1


async def test_stopping_the_engine_cancels_the_pipeline_run(house: House) -> None:
    pipeline = FakePipeline()
    pipeline.gate.clear()
    async with archiving_engine(house, pipeline) as engine:
        await pipeline.has_started.wait()

    assert pipeline.was_cancelled
    assert not engine.archiving.is_running


async def test_a_failing_pipeline_does_not_affect_messages(house: House) -> None:
    pipeline = FakePipeline()
    pipeline.ending = BROKEN
    async with archiving_engine(house, pipeline):
        await pipeline.has_started.wait()
        for number in range(5):
            await house.send(f"@coder {number}", sender=f"p{number}")
        await house.drained()

        assert [str(status) for status in await house.statuses()] == ["completed"] * 5


@pytest.mark.parametrize(
    ("ending", "last"),
    [
        (SUCCESS, "the pipeline ended: the lake holds every event up to "),
        (BROKEN, "the pipeline failed, next try in 1 min: "),
    ],
)
async def test_each_run_logs_its_start_and_its_end(house: House, ending: PipelineExit, last: str) -> None:
    pipeline = FakePipeline()
    pipeline.ending = ending
    with logging_to(house.home.logs, lambda text: text):
        async with archiving_engine(house, pipeline) as engine:
            await house.send("@coder hello", sender="ann")
            await pipeline.has_started.wait()
            await engine.archiving.wait()

    first, second, *_ = (json.loads(line)["text"] for line in tail(house.home.logs, "pipeline", 100))
    assert first.startswith("the pipeline starts: ")
    assert second.startswith(last)
