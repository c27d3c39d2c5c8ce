"""Runs that are stopped, interrupted, released at shutdown, or lose their claim."""

import asyncio
import time
from datetime import timedelta

import pytest

from tests.engine.conftest import House, open_an_hour_ahead, settled
from tests.support.puppet import Gate, in_turn
from tinyagi.domain.errors import NotFound
from tinyagi.domain.messages import Status


async def test_stopping_a_run_ends_only_that_run_and_the_lane_continues(house: House) -> None:
    gate, other = Gate(), Gate()
    house.puppet.plays.update(coder=in_turn(gate, "second", "third"), writer=other)
    async with house.open():
        await house.send("@coder first", sender="Ada")
        await house.send("@writer meanwhile")
        await gate.reached.wait()
        await other.reached.wait()
        await house.send("@coder second")
        await house.send("@coder third")
        (running,) = [message for message in await house.store.queue.processing() if message.agent == "coder"]

        assert await house.engine.stop_run(running.id, by="Ada")
        await house.until_event("chain_step_done")
        assert house.puppet.running == ["writer"]
        other.open.set()
        await house.drained()

        (stopped,) = await house.events("message_stopped")
        (dead,) = await house.store.queue.dead()

    assert house.puppet.cancelled == ["coder"]
    assert (dead.message, dead.last_error) == ("@coder first", "stopped by Ada")
    assert stopped.payload["reason"] == "stopped by Ada"
    assert house.puppet.prompts_of("coder") == ["first", "second", "third"]


async def test_a_message_that_does_not_run_cannot_be_stopped(house: House) -> None:
    async with house.open():
        with pytest.raises(NotFound, match="not running"):
            await house.engine.stop_run(4711, by="Ada")


async def test_shutdown_lets_a_run_finish_within_the_grace_period(house: House) -> None:
    gate = house.puppet.plays["coder"] = Gate("finished")
    async with house.open():
        await house.send("@coder go")
        await gate.reached.wait()
        asyncio.get_running_loop().call_soon(gate.open.set)

    async with house.open(start=False):
        (response,) = await house.responses()

    assert response.message == "finished"


async def test_shutdown_releases_a_run_that_does_not_finish_in_time(house: House) -> None:
    gate = house.puppet.plays["coder"] = Gate()
    async with house.open(grace=timedelta(milliseconds=10)):
        await house.send("@coder go")
        await gate.reached.wait()

    house.puppet.plays.clear()
    async with house.open():
        await house.drained()
        (released,) = await house.events("message_released")
        (message,) = await house.messages()

    assert released.payload["reason"] == "the engine stops"
    assert house.puppet.cancelled == ["coder"]
    assert (message.status, message.retry_count) == (Status.COMPLETED, 0)


async def test_a_second_request_to_stop_does_not_wait(house: House) -> None:
    gate = house.puppet.plays["coder"] = Gate()
    async with house.open(grace=timedelta(hours=1)):
        await house.send("@coder go")
        await gate.reached.wait()
        asyncio.get_running_loop().call_later(0.01, house.engine.halt)

    assert house.puppet.cancelled == ["coder"]


async def test_a_run_that_loses_its_claim_is_cancelled(house: House) -> None:
    house.settings["queue"]["lease_seconds"] = 1
    gate = house.puppet.plays["coder"] = Gate()
    async with house.open():
        await house.send("@coder go")
        await gate.reached.wait()
        (run,) = house.engine.runs()
        house.puppet.plays.clear()
        await house.store.queue.release(run.claim, reason="somebody else took it")
        await house.drained()
        answers = await house.responses()

    assert house.puppet.cancelled == ["coder"]
    assert [answer.message for answer in answers] == ["echo: go"]


async def test_the_answer_of_a_lost_claim_is_dropped(house: House, caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate("the first answer")
    house.puppet.plays["coder"] = in_turn(gate, "the second answer")
    async with house.open():
        await house.send("@coder go")
        await gate.reached.wait()
        (run,) = house.engine.runs()
        await house.store.queue.release(run.claim, reason="taken away")
        gate.open.set()
        await house.drained()
        (response,) = await house.responses()
        failed = await house.events("message_failed")

    assert response.message == "the second answer"
    assert failed == []
    assert "was not written: Claim" in caplog.text
    assert "cannot be stored" not in caplog.text


async def test_a_lease_is_renewed_during_the_run(house: House) -> None:
    house.settings["queue"]["lease_seconds"] = 1
    gate = house.puppet.plays["coder"] = Gate()
    async with house.open():
        await house.send("@coder go")
        await gate.reached.wait()
        (first,) = await house.store.lanes.all()

        async def is_renewed() -> bool:
            (lane,) = await house.store.lanes.all()
            return (lane.lease_until or 0) > (first.lease_until or 0)

        await house.until(is_renewed)
        gate.open.set()
        await house.drained()

        assert await house.statuses() == [Status.COMPLETED]


async def test_a_second_message_interrupts_the_run_and_shares_its_answer(house: House) -> None:
    house.settings["agents"]["coder"]["while_running"] = "interrupt"
    house.settings["queue"]["interrupt_debounce_seconds"] = 0.05
    gate = Gate()
    house.puppet.plays["coder"] = in_turn(gate, lambda request: request.prompt)
    async with house.open():
        await house.send("@coder book a table", channel="web", sender="Ada")
        await gate.reached.wait()
        await house.send("@coder for two", channel="web", sender="Ada")
        await house.drained()

        (released, *_) = await house.events("message_released")
        (response,) = await house.responses()
        messages = await house.messages()

    assert "interrupted" in released.payload["reason"]
    assert response.message == "book a table\n\nfor two"
    assert [message.retry_count for message in messages] == [0, 0]


async def test_a_message_from_another_person_does_not_interrupt(house: House) -> None:
    house.settings["agents"]["coder"]["while_running"] = "interrupt"
    house.settings["queue"]["interrupt_debounce_seconds"] = 0.01
    gate = house.puppet.plays["coder"] = Gate()
    async with house.open():
        await _add_while_it_runs(house, gate, "what about me", sender="Grace")

    assert house.puppet.cancelled == []


async def test_the_number_of_interrupts_is_limited(house: House) -> None:
    house.settings["agents"]["coder"]["while_running"] = "interrupt"
    house.settings["queue"] |= {"interrupt_debounce_seconds": 0, "interrupt_max": 2}
    gates = [Gate() for _ in range(3)]
    house.puppet.plays["coder"] = in_turn(*gates)
    async with house.open():
        for number, gate in enumerate(gates):
            await house.send(f"@coder part {number}", channel="web", sender="Ada")
            await gate.reached.wait()
        await house.send("@coder part 3", channel="web", sender="Ada")
        await _let_watchers_act(house)
        gates[-1].open.set()
        await house.drained()

        assert not house.engine._context.interrupts._counts, "a finished message is forgotten"

    assert house.puppet.cancelled == ["coder", "coder"]


async def test_interrupts_work_after_the_clock_was_set_back(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.settings["agents"]["coder"]["while_running"] = "interrupt"
    house.settings["queue"]["interrupt_debounce_seconds"] = 0.05
    gate = Gate()
    house.puppet.plays["coder"] = in_turn(gate, lambda request: request.prompt)
    monkeypatch.setattr("tinyagi.wiring.open_store", open_an_hour_ahead)
    async with house.open():
        await house.send("@coder book a table", channel="web", sender="Ada")
        await gate.reached.wait()
        await house.send("@coder for two", channel="web", sender="Ada")
        await house.drained()

    assert house.puppet.cancelled == ["coder"]


async def test_an_interrupt_waits_for_the_debounce_time(house: House) -> None:
    house.settings["agents"]["coder"]["while_running"] = "interrupt"
    house.settings["queue"]["interrupt_debounce_seconds"] = 60
    gate = house.puppet.plays["coder"] = Gate()
    async with house.open():
        await _add_while_it_runs(house, gate, "for two", sender="Ada")

    assert house.puppet.cancelled == []


async def test_while_running_queue_does_not_interrupt(house: House) -> None:
    gate = house.puppet.plays["coder"] = Gate()
    house.settings["queue"]["interrupt_debounce_seconds"] = 0
    async with house.open():
        await _add_while_it_runs(house, gate, "for two", sender="Ada")

    assert house.puppet.cancelled == []


async def _add_while_it_runs(house: House, gate: Gate, text: str, *, sender: str) -> None:
    """While Ada's message runs, another one arrives; the run ends after the watchers had time to act."""
    await house.send("@coder book a table", channel="web", sender="Ada")
    await gate.reached.wait()
    await house.send(f"@coder {text}", channel="web", sender=sender)
    await _let_watchers_act(house)
    gate.open.set()
    await house.drained()


async def _let_watchers_act(house: House) -> None:
    """Give the watchers time to act: wait until another lane has completed a run."""
    await house.send("@writer tick")
    await settled(lambda: bool(house.puppet.prompts_of("writer")))
    began = time.monotonic()
    await settled(lambda: time.monotonic() - began > 0.05)
