"""A hold because of a provider is lifted as soon as the provider's settings change."""

from datetime import timedelta

import pytest

from tests.engine.conftest import House
from tests.support.puppet import Gate, failing, in_turn
from tinyagi.domain.ids import AgentId
from tinyagi.domain.retry import Failure, FailureKind, HoldCause
from tinyagi.providers.base import RunFailed, RunRequest

AN_HOUR = timedelta(hours=1)


async def hold_coder(house: House) -> None:
    """Send a message whose run is refused, so that the lane is held for an hour."""
    refused = failing(FailureKind.UNAVAILABLE, "the key was refused", retry_after=AN_HOUR)
    house.puppet.plays["coder"] = in_turn(refused, "done")
    await house.send("@coder go")
    await house.until_event("lane_held")


async def test_a_changed_provider_lifts_the_hold_with_an_event(house: House) -> None:
    async with house.open():
        await hold_coder(house)
        await house.engine.settings.save({"agents": {"coder": {"provider": "openai"}}})
        await house.drained()
        _, lifted = await house.events("lane_held")

    assert lifted.payload == {
        "hold_until": 0,
        "reason": "its provider settings have changed",
        "holds": 0,
        "cause": None,
    }
    assert [request.agent for request in house.puppet.requests] == ["coder", "coder"]


@pytest.mark.parametrize(
    "patch", [{"models": {"openai": {"api_key": "sk-right"}}}, {"agents": {"coder": {"model": "luna"}}}]
)
async def test_a_changed_model_or_key_lifts_the_hold(patch: dict[str, object], house: House) -> None:
    house.settings["agents"]["coder"]["provider"] = "api"
    house.settings["models"] = {"openai": {"api_key": "sk-wrong", "model": "gpt"}}
    async with house.open():
        await hold_coder(house)
        await house.engine.settings.save(patch)
        await house.drained()


async def test_changes_of_other_settings_keep_the_hold(house: House) -> None:
    async with house.open():
        await hold_coder(house)
        await house.engine.settings.save({"agents": {"writer": {"model": "m"}}, "responses": {"suffix": True}})
        await house.send("@writer hello")
        await house.until_event("response_ready")
        lane = next(lane for lane in await house.store.lanes.all() if lane.agent == "coder")

        assert (lane.hold_reason, len(await house.events("lane_held"))) == ("the key was refused", 1)


async def test_a_failure_with_outdated_settings_does_not_hold_the_lane(house: House) -> None:
    gate = Gate()

    async def refused_late(request: RunRequest) -> str:
        await gate(request)
        raise RunFailed(Failure(FailureKind.UNAVAILABLE, "the old key was refused", retry_after=AN_HOUR))

    house.puppet.plays["coder"] = in_turn(refused_late, "done")
    async with house.open():
        await house.send("@coder go")
        await gate.reached.wait()
        await house.engine.settings.save({"agents": {"coder": {"provider": "openai"}}})
        gate.open.set()
        await house.drained()


async def test_a_hold_that_needs_a_fix_is_lifted_at_the_next_start(house: House) -> None:
    house.settings["queue"]["hold_base_seconds"] = 3600
    missing = failing(FailureKind.UNAVAILABLE, "claude is not installed", needs_person=True)
    house.puppet.plays["coder"] = in_turn(missing, "done")
    async with house.open():
        await house.send("@coder go")
        held = await house.until_event("lane_held")
    async with house.open():
        await house.drained()

    assert held.payload["reason"] == "needs a fix: claude is not installed"
    assert held.payload["cause"] == HoldCause.FIX


async def test_a_timed_hold_survives_a_restart(house: House) -> None:
    async with house.open():
        await hold_coder(house)
    async with house.open():
        await house.send("@writer hello")
        await house.until_event("response_ready")
        held = {lane.agent: lane.hold_reason for lane in await house.store.lanes.all()}

        assert held[AgentId("coder")] == "the key was refused"
