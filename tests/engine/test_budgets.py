"""Budgets: costs are counted, and messages over budget wait with a hold, an event and a notice."""

import json
from datetime import datetime, timedelta

import pytest

from tests.engine.conftest import House
from tests.support.puppet import in_turn
from tinyagi.domain.ids import AgentId
from tinyagi.domain.limits import Usage
from tinyagi.domain.messages import Status
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.providers.base import RunFailed, RunRequest, RunResult


def costing(cost: float, tokens: int = 10) -> RunResult:
    return RunResult("ok", Usage(tokens, 0, cost=cost, provider="puppet", model="m-1"))


async def _spent(house: House, scope: str) -> tuple[int, float]:
    spent = (await house.store.spending.of_day(datetime.now().date().isoformat()))[scope]  # noqa: DTZ005
    return spent.tokens, spent.cost


async def test_a_run_is_charged_to_its_agent_its_team_and_overall(house: House) -> None:
    house.puppet.plays["coder"] = lambda _: costing(0.25)
    async with house.open():
        await house.send("@dev first")
        await house.send("@coder second")
        await house.drained()

        assert await _spent(house, "*") == (20, 0.5)
        assert await _spent(house, "agent:coder") == (20, 0.5)
        assert await _spent(house, "team:dev") == (10, 0.25)


async def test_a_run_without_a_provider_cost_is_charged_by_the_price_table(house: House) -> None:
    house.settings["limits"]["prices"] = {"m-1": {"input": 3.0, "output": 15.0}}
    house.puppet.plays["coder"] = lambda _: RunResult("ok", Usage(1_000_000, 100_000, provider="p", model="m-1"))
    async with house.open():
        await house.send("@coder go")
        await house.drained()

        assert await _spent(house, "agent:coder") == (1_100_000, 4.5)


async def test_a_failed_run_is_charged(house: House) -> None:
    def failing(request: RunRequest) -> RunResult:
        raise RunFailed(Failure(FailureKind.MESSAGE, "boom", usage=Usage(5, 5, cost=0.1)))

    house.puppet.plays["coder"] = in_turn(failing, lambda _: costing(0.1))
    async with house.open():
        await house.send("@coder go")
        await house.drained()

        assert await _spent(house, "agent:coder") == (20, 0.2)


async def test_an_agent_over_budget_waits_until_midnight_with_a_notice(house: House) -> None:
    house.settings["limits"]["agents"] = {"coder": {"daily_cost": 1.0}}
    house.puppet.plays["coder"] = lambda _: costing(1.0)
    async with house.open():
        await house.send("@coder first", sender="Ada")
        await house.drained()
        await house.send("@coder second", sender="Grace")
        reached = await house.until_event("budget_reached")
        await house.send("@writer other lanes go on")
        await house.until(lambda: _answered(house, 3))

        (lane,) = [lane for lane in await house.store.lanes.all() if lane.agent == "coder"]
        notice = (await house.responses())[1]
        second = (await house.messages())[1]

    midnight = (datetime.now().astimezone() + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    assert lane.hold_until == int(midnight.timestamp() * 1000)
    assert lane.hold_reason is not None
    assert "daily budget of 1" in lane.hold_reason
    assert (notice.sender, notice.seq) == ("Grace", 1)
    assert "daily budget" in notice.message
    assert reached.payload["scope"] == "agent:coder"
    assert (second.status, second.retry_count) == (Status.PENDING, 0)


async def test_raising_the_limit_lifts_the_hold_at_once(house: House) -> None:
    house.settings["limits"]["daily_tokens"] = 10
    async with house.open():
        house.puppet.plays["coder"] = lambda _: costing(0)
        await house.send("@coder first")
        await house.drained()
        await house.send("@coder second")
        await house.until_event("budget_reached")

        house.settings["limits"]["daily_tokens"] = 1000
        house.home.settings_file.write_text(json.dumps(house.settings), encoding="utf-8")
        await house.drained()

    assert house.puppet.prompts_of("coder") == ["first", "second"]


async def test_a_team_over_budget_holds_back_only_its_messages(house: House) -> None:
    house.settings["limits"]["teams"] = {"dev": {"daily_cost": 1.0}}
    house.puppet.plays["coder"] = lambda _: costing(1.0)
    async with house.open():
        await house.send("@dev first", sender="Ada")
        await house.drained()
        await house.send("@dev second", sender="Ada")
        await house.until_event("budget_reached")
        await house.send("@dev third", sender="Grace")
        await house.send("@coder not for the team", sender="Linus")
        await house.until(lambda: _answered(house, 3))

        statuses = await house.statuses()
        (lane,) = [lane for lane in await house.store.lanes.all() if lane.agent == "coder"]

    assert statuses == [Status.COMPLETED, Status.PENDING, Status.PENDING, Status.COMPLETED]
    assert lane.hold_until == 0
    assert house.puppet.prompts_of("coder") == ["first", "not for the team"]


async def test_a_missing_price_is_logged_once_when_a_budget_needs_it(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.settings["limits"]["daily_cost"] = 10
    house.puppet.plays["coder"] = lambda _: RunResult("ok", Usage(5, 5, provider="p", model="m-9"))
    async with house.open():
        for _ in range(2):
            await house.send("@coder go")
        await house.drained()

    assert [record.message for record in caplog.records if "m-9" in record.message] == [
        "no price is known for m-9: it counts as free. Set limits.prices in the settings."
    ]


async def test_no_lane_is_held_without_budgets(house: House) -> None:
    house.puppet.plays["coder"] = lambda _: costing(1_000_000)
    async with house.open():
        for _ in range(3):
            await house.send("@coder go")
        await house.drained()

        assert AgentId("coder") not in [lane.agent for lane in await house.store.lanes.all() if lane.hold_until]


async def _answered(house: House, count: int) -> bool:
    return len(await house.responses()) >= count
