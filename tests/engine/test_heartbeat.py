"""Heartbeats: at each agent's interval, once for each beat, and never one upon another."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

import pytest

from tests.engine.conftest import ADAPTERS, House
from tests.support.clock import FakeClock
from tests.support.puppet import Gate
from tinyagi.domain.ids import AgentId
from tinyagi.domain.limits import Usage
from tinyagi.domain.messages import Message, Status
from tinyagi.engine.budgets import Budgets
from tinyagi.engine.engine import Engine
from tinyagi.engine.heartbeat import HeartbeatSender
from tinyagi.providers.base import RunResult
from tinyagi.wiring import open_engine

CODER = AgentId("coder")
INTERVAL = timedelta(minutes=10)
MOMENT = timedelta(milliseconds=1)


@dataclass
class Patient:
    """The heartbeat of a house in which the coder alone has something to be asked."""

    house: House
    clock: FakeClock
    heart: HeartbeatSender

    async def until_next(self) -> None:
        """Let the time of the coder's next beat come."""
        self.clock.now = self.heart.next_at[CODER]
        await self.heart.send_due()

    async def beats(self) -> list[Message]:
        return [message for message in await self.house.messages() if message.channel == "heartbeat"]

    def says(self, text: str, agent: str = "coder") -> None:
        folder = self.house.folder / "workspace" / agent
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "heartbeat.md").write_text(text, encoding="utf-8")


def heart_of(engine: Engine, clock: FakeClock) -> HeartbeatSender:
    effective = engine._context.effective
    return HeartbeatSender(engine.store, engine.inbox, effective, Budgets(engine.store.spending), clock)


@pytest.fixture
def beating(house: House) -> House:
    house.settings["monitoring"]["heartbeat_interval"] = INTERVAL.total_seconds()
    return house


@pytest.fixture
async def patient(beating: House) -> AsyncIterator[Patient]:
    """The engine is not started: a beat that was sent stays pending until the test starts it."""
    async with beating.open(start=False):
        clock = FakeClock()
        patient = Patient(beating, clock, heart_of(beating.engine, clock))
        patient.says("Anything due?\n")
        await patient.heart.send_due()
        yield patient


async def test_an_agent_is_asked_what_its_file_says_when_its_beat_comes(patient: Patient) -> None:
    patient.clock.now = patient.heart.next_at[CODER] - 1
    await patient.heart.send_due()
    assert await patient.beats() == []

    patient.clock.advance(MOMENT)
    await patient.heart.send_due()
    (beat,) = await patient.beats()

    assert (beat.agent, beat.message, beat.sender) == ("coder", "Anything due?", "Heartbeat")
    assert beat.message_id == f"heartbeat_coder_{patient.clock.now}"
    assert patient.heart.last_sent == {CODER: patient.clock.now}
    assert patient.heart.next_at[CODER] == patient.clock.now + INTERVAL // MOMENT
    assert await patient.house.events("agent_routed")


async def test_a_restart_brings_no_beat_of_its_own_and_keeps_the_time_of_the_next(patient: Patient) -> None:
    await patient.until_next()
    patient.clock.advance(MOMENT)
    again = heart_of(patient.house.engine, patient.clock)
    await again.send_due()

    assert again.next_at == patient.heart.next_at
    assert len(await patient.beats()) == 1


async def test_agents_do_not_all_begin_at_once(patient: Patient) -> None:
    assert len(set(patient.heart.next_at.values())) == len(patient.heart.next_at) == 3
    assert all(0 < at - patient.clock.now <= INTERVAL // MOMENT for at in patient.heart.next_at.values())


@pytest.mark.parametrize(
    "text",
    ["", " \n\n", "# Heartbeat\n\n## Later\n", "<!-- one\nor two -->\n# Nothing yet\n", "<!-- never closed\nAsk this."],
)
async def test_a_file_that_says_nothing_asks_nothing(patient: Patient, text: str) -> None:
    patient.says(text)
    await patient.until_next()
    assert await patient.beats() == []


async def test_without_a_file_nothing_is_asked_and_with_one_again_the_next_beat_is(patient: Patient) -> None:
    file = patient.house.folder / "workspace" / "coder" / "heartbeat.md"
    file.unlink()
    await patient.until_next()
    assert await patient.beats() == []

    patient.says("# Rounds\nLook around.")
    await patient.until_next()
    assert [beat.message for beat in await patient.beats()] == ["# Rounds\nLook around."]


async def test_a_file_that_cannot_be_read_is_told_and_costs_no_other_agent_its_beat(
    patient: Patient, caplog: pytest.LogCaptureFixture
) -> None:
    file = patient.house.folder / "workspace" / "coder" / "heartbeat.md"
    file.unlink()
    file.mkdir()
    patient.says("And you?", agent="writer")
    patient.clock.advance(INTERVAL)
    await patient.heart.send_due()

    assert [beat.agent for beat in await patient.beats()] == ["writer"]
    assert "the heartbeat of @coder cannot be sent" in caplog.text


async def test_no_beat_is_sent_while_the_last_one_waits_whoever_sent_it(patient: Patient) -> None:
    await patient.until_next()
    await patient.until_next()
    patient.heart = heart_of(patient.house.engine, patient.clock)
    await patient.heart.send_due()
    await patient.until_next()
    assert len(await patient.beats()) == 1

    await patient.house.engine.start()
    await patient.house.drained()
    await patient.until_next()
    assert len(await patient.beats()) == 2


async def test_no_beat_is_sent_while_the_last_one_runs(patient: Patient) -> None:
    gate = patient.house.puppet.plays["coder"] = Gate()
    await patient.until_next()
    await patient.house.engine.start()
    await gate.reached.wait()
    await patient.until_next()
    assert [beat.status for beat in await patient.beats()] == [Status.PROCESSING]
    gate.open.set()


async def test_other_work_of_the_agent_holds_back_no_beat(patient: Patient) -> None:
    await patient.house.send("@coder build it")
    await patient.until_next()
    assert len(await patient.beats()) == 1


async def test_a_lane_that_may_not_run_is_not_asked(patient: Patient) -> None:
    lanes = patient.house.store.lanes
    await lanes.pause(CODER)
    await patient.until_next()
    await lanes.resume(CODER)
    await lanes.hold(CODER, until=patient.house.store.clock() + 3_600_000, reason="usage limit")
    await patient.until_next()
    assert await patient.beats() == []

    await lanes.hold(CODER, until=patient.house.store.clock() - 1, reason="usage limit")
    await patient.until_next()
    assert len(await patient.beats()) == 1


async def test_an_agent_over_budget_is_not_asked(beating: House) -> None:
    beating.settings["limits"]["agents"] = {"coder": {"daily_cost": 1.0}}
    beating.puppet.plays["coder"] = lambda _: RunResult("ok", Usage(1, 1, cost=1.0))
    clock = FakeClock()
    async with beating.open():
        patient = Patient(beating, clock, heart_of(beating.engine, clock))
        await beating.send("@coder spend it")
        await beating.drained()
        await patient.heart.send_due()
        await patient.until_next()

        assert await patient.beats() == []
        assert await beating.events("budget_reached") == []


async def test_two_engines_send_each_beat_once(patient: Patient) -> None:
    house = patient.house
    async with open_engine(house.home, adapters=dict.fromkeys(ADAPTERS, house.puppet)) as engine:
        other = heart_of(engine, patient.clock)
        await other.send_due()
        patient.clock.now = patient.heart.next_at[CODER]
        await asyncio.gather(patient.heart.send_due(), other.send_due())

    assert len(await patient.beats()) == 1


async def test_beats_that_were_slept_through_are_not_made_up_for(patient: Patient) -> None:
    patient.clock.advance(20 * INTERVAL)
    await patient.heart.send_due()

    assert len(await patient.beats()) == 1
    assert patient.heart.next_at[CODER] > patient.clock.now


async def test_a_clock_that_is_set_back_delays_the_next_beat_by_no_more_than_the_interval(patient: Patient) -> None:
    patient.clock.advance(timedelta(days=-30))
    await patient.heart.send_due()
    assert 0 < patient.heart.next_at[CODER] - patient.clock.now <= INTERVAL // MOMENT


async def test_who_is_switched_off_or_removed_has_no_next_beat(patient: Patient) -> None:
    settings = patient.house.engine.settings
    await settings.save(
        {"agents": {"coder": {"heartbeat": {"enabled": False}}, "writer": {"heartbeat": {"interval": 0}}}}
    )
    patient.clock.advance(2 * INTERVAL)
    await patient.heart.send_due()

    assert list(patient.heart.next_at) == ["tester"]
    assert await patient.beats() == []


async def test_a_longer_interval_puts_the_next_beat_off(patient: Patient) -> None:
    await patient.house.engine.settings.save({"agents": {"coder": {"heartbeat": {"interval": 86_400}}}})
    before = patient.heart.next_at[CODER]
    patient.clock.now = before
    await patient.heart.send_due()

    assert await patient.beats() == []
    assert patient.heart.next_at[CODER] > before


async def test_a_running_engine_takes_a_shorter_interval_at_once(beating: House) -> None:
    async with beating.open():
        await beating.send("@coder make your folder")
        await beating.drained()
        await beating.engine.settings.save({"agents": {"coder": {"heartbeat": {"interval": 1}}}})
        await beating.until(lambda: _is_asked(beating))

        assert beating.engine.heartbeat.last_sent
        assert set(beating.engine.heartbeat.next_at) == {"coder", "writer", "tester"}


async def test_an_agent_has_no_heartbeat_until_it_is_switched_on(house: House) -> None:
    del house.settings["monitoring"]
    async with house.open():
        assert not house.engine.heartbeat.next_at

        await house.engine.settings.save({"agents": {"coder": {"heartbeat": {"enabled": True}}}})
        await house.engine.heartbeat.send_due()

        assert set(house.engine.heartbeat.next_at) == {"coder"}


async def test_comments_in_the_file_are_not_sent(patient: Patient) -> None:
    patient.says("<!-- For the owner. -->\nAnything due?\n")

    await patient.until_next()

    assert [beat.message for beat in await patient.beats()] == ["Anything due?"]


async def _is_asked(house: House) -> bool:
    return any("Look at your open work" in prompt for prompt in house.puppet.prompts_of("coder"))
