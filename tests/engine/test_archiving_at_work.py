"""Archiving as a part of a running engine: it looks by itself, ends with the engine, and harms nobody."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.engine.conftest import ADAPTERS, House
from tests.engine.test_archiving import BROKEN, WELL, Clerk
from tinyagi.daemon.logs import logging_to
from tinyagi.domain.errors import StoreBusy
from tinyagi.engine.engine import Engine
from tinyagi.engine.pipeline_trigger import LakeLag, PipelineExit
from tinyagi.log_reader import tail
from tinyagi.wiring import open_engine


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine has."""
    monkeypatch.setattr("tinyagi.wiring.pipeline_is_installed", lambda: True)


@asynccontextmanager
async def at_work(house: House, clerk: Clerk) -> AsyncIterator[Engine]:
    """An engine that looks all the time and has this pipeline."""
    house.settings["pipeline"] = {"min_events": 1, "check_seconds": 0.05}
    house.write_settings()
    adapters = dict.fromkeys(ADAPTERS, house.puppet)
    async with open_engine(house.home, adapters=adapters, pipeline=clerk) as engine:
        house._engine, clerk.events = engine, engine.store.events
        await engine.start()
        yield engine
        await engine.stop(timedelta(seconds=5))


async def test_an_engine_archives_by_itself_and_goes_on_after_an_error_of_the_store(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    clerk = Clerk()
    async with at_work(house, clerk) as engine:
        sound = engine.archiving.lag
        failed = asyncio.Event()

        async def broken() -> LakeLag | None:
            failed.set()
            raise StoreBusy("The database is locked.")

        monkeypatch.setattr(engine.archiving, "lag", broken)
        await failed.wait()
        monkeypatch.setattr(engine.archiving, "lag", sound)
        await clerk.is_at_work.wait()

    assert clerk.runs >= 1


async def test_an_engine_that_stops_ends_the_run_that_is_going_on(house: House) -> None:
    clerk = Clerk()
    clerk.door.clear()
    async with at_work(house, clerk) as engine:
        await clerk.is_at_work.wait()

    assert clerk.was_sent_home
    assert not engine.archiving.is_running


async def test_a_pipeline_that_breaks_every_time_touches_no_message(house: House) -> None:
    clerk = Clerk()
    clerk.ending = BROKEN
    async with at_work(house, clerk):
        await clerk.is_at_work.wait()
        for number in range(5):
            await house.send(f"@coder {number}", sender=f"p{number}")
        await house.drained()

        assert [str(status) for status in await house.statuses()] == ["completed"] * 5


@pytest.mark.parametrize(
    ("ending", "last"),
    [
        (WELL, "the pipeline ended: the lake holds every event up to "),
        (BROKEN, "the pipeline failed, next try in 1 min: "),
    ],
)
async def test_each_run_leaves_its_start_and_its_end_in_the_log_of_the_pipeline(
    house: House, ending: PipelineExit, last: str
) -> None:
    clerk = Clerk()
    clerk.ending = ending
    with logging_to(house.home.logs, lambda text: text):
        async with at_work(house, clerk) as engine:
            await house.send("@coder hello", sender="ann")
            await clerk.is_at_work.wait()
            await engine.archiving.wait()

    first, second, *_ = (json.loads(line)["text"] for line in tail(house.home.logs, "pipeline", 100))
    assert first.startswith("the pipeline starts: ")
    assert second.startswith(last)
