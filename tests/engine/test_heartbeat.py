"""Heartbeats: at each agent's interval, each beat once, and never while the last one is open."""

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
class HeartbeatSetup:
    """The heartbeat sender of a house in which only the coder has a heartbeat file."""

    house: House
    clock: FakeClock
    sender: HeartbeatSender

    async def until_next(self) -> None:
        """Advance the clock to the coder's next beat and send what is due."""
        self.clock.now = self.sender.next_at[CODER]
        await self.sender.send_due()

    async def beats(self) -> list[Message]:
        return [message for message in await self.house.messages() if message.channel == "heartbeat"]

    def write_file(self, text: str, agent: str = "coder") -> None:
        folder = self.house.folder / "workspace" / agent
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "heartbeat.md").write_text(text, encoding="utf-8")


def sender_of(engine: Engine, clock: FakeClock) -> HeartbeatSender:
    effective = engine._context.effective
    return HeartbeatSender(engine.store, engine.inbox, effective, Budgets(engine.store.spending), clock)


@pytest.fixture
def beating(house: House) -> House:
    house.settings["monitoring"]["heartbeat_interval"] = INTERVAL.total_seconds()
    return house


@pytest.fixture
async def setup(beating: House) -> AsyncIterator[HeartbeatSetup]:
    """The engine is not started: a beat that was sent stays pending until the test starts it."""
    async with beating.open(start=False):
        clock = FakeClock()
        setup = HeartbeatSetup(beating, clock, sender_of(beating.engine, clock))
        setup.write_file("Anything due?\n")
        await setup.sender.send_due()
        yield setup


async def test_a_beat_sends_the_text_of_the_heartbeat_file(setup: HeartbeatSetup) -> None:
    setup.clock.now = setup.sender.next_at[CODER] - 1
    await setup.sender.send_due()
    assert await setup.beats() == []

    setup.clock.advance(MOMENT)
    await setup.sender.send_due()
    (beat,) = await setup.beats()

    assert (beat.agent, beat.message, beat.sender) == ("coder", "Anything due?", "Heartbeat")
    assert beat.message_id == f"heartbeat_coder_{setup.clock.now}"
    assert setup.sender.last_sent == {CODER: setup.clock.now}
    assert setup.sender.next_at[CODER] == setup.clock.now + INTERVAL // MOMENT
    assert await setup.house.events("agent_routed")


async def test_a_restart_sends_no_beat_and_keeps_the_next_time(setup: HeartbeatSetup) -> None:
    await setup.until_next()
    setup.clock.advance(MOMENT)
    again = sender_of(setup.house.engine, setup.clock)
    await again.send_due()

    assert again.next_at == setup.sender.next_at
    assert len(await setup.beats()) == 1


async def test_first_beats_are_spread_over_the_interval(setup: HeartbeatSetup) -> None:
    assert len(set(setup.sender.next_at.values())) == len(setup.sender.next_at) == 3
    assert all(0 < at - setup.clock.now <= INTERVAL // MOMENT for at in setup.sender.next_at.values())


@pytest.mark.parametrize(
    "text",
    ["", " \n\n", "# Heartbeat\n\n## Later\n", "<!-- one\nor two -->\n# Nothing yet\n", "<!-- never closed\nAsk this."],
)
async def test_a_file_without_text_sends_no_beat(setup: HeartbeatSetup, text: str) -> None:
    setup.write_file(text)
    await setup.until_next()
    assert await setup.beats() == []


async def test_beats_pause_while_the_file_is_missing(setup: HeartbeatSetup) -> None:
    file = setup.house.folder / "workspace" / "coder" / "heartbeat.md"
    file.unlink()
    await setup.until_next()
    assert await setup.beats() == []

    setup.write_file("# Rounds\nLook around.")
    await setup.until_next()
    assert [beat.message for beat in await setup.beats()] == ["# Rounds\nLook around."]


async def test_an_unreadable_file_is_logged_and_other_agents_get_their_beat(
    setup: HeartbeatSetup, caplog: pytest.LogCaptureFixture
) -> None:
    file = setup.house.folder / "workspace" / "coder" / "heartbeat.md"
    file.unlink()
    file.mkdir()
    setup.write_file("And you?", agent="writer")
    setup.clock.advance(INTERVAL)
    await setup.sender.send_due()

    assert [beat.agent for beat in await setup.beats()] == ["writer"]
    assert "the heartbeat of @coder cannot be sent" in caplog.text


async def test_no_beat_is_sent_while_the_last_one_is_pending(setup: HeartbeatSetup) -> None:
    await setup.until_next()
    await setup.until_next()
    setup.sender = sender_of(setup.house.engine, setup.clock)
    await setup.sender.send_due()
    await setup.until_next()
    assert len(await setup.beats()) == 1

    await setup.house.engine.start()
    await setup.house.drained()
    await setup.until_next()
    assert len(await setup.beats()) == 2


async def test_no_beat_is_sent_while_the_last_one_runs(setup: HeartbeatSetup) -> None:
    gate = setup.house.puppet.plays["coder"] = Gate()
    await setup.until_next()
    await setup.house.engine.start()
    await gate.reached.wait()
    await setup.until_next()
    assert [beat.status for beat in await setup.beats()] == [Status.PROCESSING]
    gate.open.set()


async def test_pending_messages_do_not_hold_back_a_beat(setup: HeartbeatSetup) -> None:
    await setup.house.send("@coder build it")
    await setup.until_next()
    assert len(await setup.beats()) == 1


async def test_a_paused_or_held_lane_gets_no_beat(setup: HeartbeatSetup) -> None:
    lanes = setup.house.store.lanes
    await lanes.pause(CODER)
    await setup.until_next()
    await lanes.resume(CODER)
    await lanes.hold(CODER, until=setup.house.store.clock() + 3_600_000, reason="usage limit")
    await setup.until_next()
    assert await setup.beats() == []

    await lanes.hold(CODER, until=setup.house.store.clock() - 1, reason="usage limit")
    await setup.until_next()
    assert len(await setup.beats()) == 1


async def test_an_agent_over_budget_gets_no_beat(beating: House) -> None:
    beating.settings["limits"]["agents"] = {"coder": {"daily_cost": 1.0}}
    beating.puppet.plays["coder"] = lambda _: RunResult("ok", Usage(1, 1, cost=1.0))
    clock = FakeClock()
    async with beating.open():
        setup = HeartbeatSetup(beating, clock, sender_of(beating.engine, clock))
        await beating.send("@coder spend it")
        await beating.drained()
        await setup.sender.send_due()
        await setup.until_next()

        assert await setup.beats() == []
        assert await beating.events("budget_reached") == []


async def test_two_engines_send_each_beat_once(setup: HeartbeatSetup) -> None:
    house = setup.house
    async with open_engine(house.home, adapters=dict.fromkeys(ADAPTERS, house.puppet)) as engine:
        other = sender_of(engine, setup.clock)
        await other.send_due()
        setup.clock.now = setup.sender.next_at[CODER]
        await asyncio.gather(setup.sender.send_due(), other.send_due())

    assert len(await setup.beats()) == 1


async def test_missed_beats_are_not_sent_later(setup: HeartbeatSetup) -> None:
    setup.clock.advance(20 * INTERVAL)
    await setup.sender.send_due()

    assert len(await setup.beats()) == 1
    assert setup.sender.next_at[CODER] > setup.clock.now


async def test_setting_the_clock_back_delays_the_next_beat_by_at_most_the_interval(setup: HeartbeatSetup) -> None:
    setup.clock.advance(timedelta(days=-30))
    await setup.sender.send_due()
    assert 0 < setup.sender.next_at[CODER] - setup.clock.now <= INTERVAL // MOMENT


async def test_an_agent_with_a_disabled_heartbeat_has_no_next_beat(setup: HeartbeatSetup) -> None:
    settings = setup.house.engine.settings
    await settings.save(
        {"agents": {"coder": {"heartbeat": {"enabled": False}}, "writer": {"heartbeat": {"interval": 0}}}}
    )
    setup.clock.advance(2 * INTERVAL)
    await setup.sender.send_due()

    assert list(setup.sender.next_at) == ["tester"]
    assert await setup.beats() == []


async def test_a_longer_interval_delays_the_next_beat(setup: HeartbeatSetup) -> None:
    await setup.house.engine.settings.save({"agents": {"coder": {"heartbeat": {"interval": 86_400}}}})
    before = setup.sender.next_at[CODER]
    setup.clock.now = before
    await setup.sender.send_due()

    assert await setup.beats() == []
    assert setup.sender.next_at[CODER] > before


async def test_a_running_engine_applies_a_shorter_interval_at_once(beating: House) -> None:
    async with beating.open():
        await beating.send("@coder make your folder")
        await beating.drained()
        await beating.engine.settings.save({"agents": {"coder": {"heartbeat": {"interval": 1}}}})
        await beating.until(lambda: _has_beat(beating))

        assert beating.engine.heartbeat.last_sent
        assert set(beating.engine.heartbeat.next_at) == {"coder", "writer", "tester"}


async def test_heartbeats_are_off_by_default(house: House) -> None:
    del house.settings["monitoring"]
    async with house.open():
        assert not house.engine.heartbeat.next_at

        await house.engine.settings.save({"agents": {"coder": {"heartbeat": {"enabled": True}}}})
        await house.engine.heartbeat.send_due()

        assert set(house.engine.heartbeat.next_at) == {"coder"}


async def test_comments_in_the_file_are_not_sent(setup: HeartbeatSetup) -> None:
    setup.write_file("<!-- For the owner. -->\nAnything due?\n")

    await setup.until_next()

    assert [beat.message for beat in await setup.beats()] == ["Anything due?"]


async def _has_beat(house: House) -> bool:
    return any("Look at your open work" in prompt for prompt in house.puppet.prompts_of("coder"))
