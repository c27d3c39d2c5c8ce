"""Archiving as a part of a running engine: it looks by itself, ends with the engine, and harms nobody."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from tests.engine.conftest import ADAPTERS, House
from tests.engine.test_archiving import BROKEN, Clerk
from tinyagi.domain.errors import StoreBusy
from tinyagi.engine.archiving import Lag
from tinyagi.engine.engine import Engine
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

        async def broken() -> Lag | None:
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
