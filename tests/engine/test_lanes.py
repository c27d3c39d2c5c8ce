"""Lanes: one run at a time in each lane, lanes run in parallel, fair under the cap."""

import asyncio
import time
from typing import Any

from tests.engine.conftest import House, settled
from tests.support.puppet import Gate, failing
from tinyagi.domain.errors import StoreBusy
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import NewMessage, Status
from tinyagi.domain.runs import Claim
from tinyagi.providers.base import RunRequest
from tinyagi.store.store import Store


async def test_a_message_becomes_a_run_and_an_answer(house: House) -> None:
    async with house.open():
        sent = await house.send("@coder fix the bug", sender="Ada")
        await house.drained()

        (response,) = await house.responses()

    assert (response.message_id, response.sender, response.message) == (sent.message_id, "Ada", "echo: fix the bug")
    assert house.puppet.requests[0].workspace == house.folder / "workspace" / "coder"


async def test_messages_of_a_lane_run_one_at_a_time_in_order(house: House) -> None:
    async def slowly(request: RunRequest) -> str:
        await asyncio.sleep(0.001)
        return request.prompt

    house.puppet.plays["coder"] = slowly
    async with house.open():
        await asyncio.gather(*(house.send(f"@coder task {number}") for number in range(30)))
        await house.drained()

    assert house.puppet.prompts_of("coder") == [f"task {number}" for number in range(30)]
    assert house.puppet.most_at_once == 1


async def test_lanes_do_not_wait_for_each_other(house: House) -> None:
    gate = house.puppet.plays["coder"] = Gate()
    async with house.open():
        await house.send("@coder take your time")
        await gate.reached.wait()
        await house.send("@writer be quick")
        await house.until_event("response_ready")

        (response,) = await house.responses()
        gate.open.set()

    assert response.agent == "writer"


async def test_the_number_of_concurrent_runs_is_capped(house: House) -> None:
    house.settings["queue"]["max_runs"] = 2
    gates = {agent: Gate() for agent in ("coder", "writer", "tester")}
    house.puppet.plays.update(gates)
    async with house.open(start=False):
        for agent in gates:
            await house.send(f"@{agent} go")
        await house.engine.start()
        await settled(lambda: len(house.puppet.running) == 2)
        first = list(house.puppet.running)
        gates[first[0]].open.set()
        await settled(lambda: len({*first, *house.puppet.running}) == 3)
        for gate in gates.values():
            gate.open.set()
        await house.drained()

    assert house.puppet.most_at_once == 2


async def test_a_long_backlog_does_not_starve_other_lanes(house: House) -> None:
    house.settings["queue"]["max_runs"] = 1
    async with house.open(start=False):
        backlog = [NewMessage(f"task {n}", AgentId("coder"), sender=f"p{n}") for n in range(20)]
        await house.store.queue.enqueue_many(backlog)
        await house.send("@writer one small thing")
        await house.engine.start()
        await house.drained()

    turns = [request.agent for request in house.puppet.requests]
    assert turns.index(AgentId("writer")) <= 2


async def test_a_message_enqueued_by_another_process_is_run(house: House) -> None:
    async with house.open():
        async with await Store.open(house.home.database) as other:
            await other.queue.enqueue(NewMessage("from elsewhere", AgentId("tester")))
        await house.until_event("response_ready")
        (response,) = await house.responses()

    assert response.message == "echo: from elsewhere"


async def test_a_delayed_message_runs_when_it_is_due(house: House) -> None:
    async with house.open():
        due = (await house.store.queue.enqueue(NewMessage("now", AgentId("coder")))).created_at + 120
        await house.store.queue.enqueue(NewMessage("later", AgentId("coder"), sender="Grace", available_at=due))
        await house.drained()

        (late,) = [event for event in await house.events("chain_step_start") if event.created_at >= due]

    assert late.payload["attempt"] == 1
    assert house.puppet.prompts_of("coder") == ["now", "later"]


async def test_a_paused_lane_finishes_its_run_and_takes_no_other(house: House) -> None:
    gate = house.puppet.plays["coder"] = Gate()
    async with house.open():
        await house.send("@coder first")
        await gate.reached.wait()
        await house.store.lanes.pause(AgentId("coder"))
        await house.send("@coder second")
        gate.open.set()
        await house.until_event("chain_step_done")
        assert await house.statuses() == [Status.COMPLETED, Status.PENDING]

        await house.store.lanes.resume(AgentId("coder"))
        await house.drained()

    assert house.puppet.prompts_of("coder") == ["first", "second"]


async def test_chat_messages_share_a_run_and_get_one_answer(house: House) -> None:
    gate = house.puppet.plays["coder"] = Gate()
    async with house.open():
        await house.send("@coder warm up")
        await gate.reached.wait()
        for text in ("one", "two", "three"):
            await house.send(f"@coder {text}", channel="web", sender="Ada")
        gate.open.set()
        await house.drained()

        responses = await house.responses()

    assert house.puppet.prompts_of("coder") == ["warm up", "one\n\ntwo\n\nthree"]
    assert len(responses) == 2


async def test_batching_all_makes_one_run_that_names_each_sender(house: House) -> None:
    house.settings["agents"]["coder"]["batching"] = "all"
    async with house.open(start=False):
        await house.send("@coder fix it", channel="api", sender="Ada")
        await house.send("@coder and test it", channel="cli", sender="Grace")
        await house.engine.start()
        await house.drained()

        (response,) = await house.responses()

    assert house.puppet.prompts_of("coder") == ["[From Ada on api]:\nfix it\n\n[From Grace on cli]:\nand test it"]
    assert response.sender == "Ada"


async def test_batching_none_gives_every_message_its_own_run(house: House) -> None:
    house.settings["agents"]["coder"]["batching"] = "none"
    async with house.open(start=False):
        for text in ("one", "two"):
            await house.send(f"@coder {text}", channel="web", sender="Ada")
        await house.engine.start()
        await house.drained()

    assert house.puppet.prompts_of("coder") == ["one", "two"]


async def test_a_briefly_locked_store_loses_no_message(house: House) -> None:
    async with house.open(start=False):
        queue, refused = house.store.queue, list[str]()
        original = queue.claim

        async def claim(*arguments: Any, **keywords: Any) -> Claim | None:
            if len(refused) < 2:
                refused.append("locked")
                raise StoreBusy("another process holds the write lock")
            return await original(*arguments, **keywords)

        queue.claim = claim  # type: ignore[method-assign]
        await house.engine.start()
        await house.send("@coder go")
        await house.send("@writer tick")
        await house.send("@tester tock")
        await house.drained()

    assert len(refused) == 2
    assert len(house.puppet.requests) == 3


async def test_a_lane_that_waits_for_a_retry_is_not_claimed_repeatedly(house: House) -> None:
    house.settings["queue"]["retry_base_seconds"] = 60
    house.puppet.plays["coder"] = failing()
    async with house.open(start=False):
        asked = _count_claims(house)
        await house.engine.start()
        await house.send("@coder go", sender="Ada")
        await house.until_event("message_failed")
        await house.send("@coder me too", sender="Ada")
        for number in range(20):
            await house.send(f"@writer {number}")
        await house.until(lambda: _answered(house, 20))

    # Once for each message: the second claim parks what waits behind the first message.
    assert asked.count(AgentId("coder")) == 2


async def test_a_lane_without_a_runnable_message_is_claimed_at_most_once_a_second(
    house: House,
) -> None:
    house.settings["limits"]["teams"] = {"dev": {"daily_tokens": 1}}
    async with house.open(start=False):
        asked = _count_claims(house)
        await house.engine.start()
        started = time.monotonic()
        for number in range(3):
            await house.send(f"@dev {number}", sender=f"s{number}")
        await house.until_event("budget_reached")
        for number in range(40):
            await house.send(f"@writer {number}")
        await house.until(lambda: _answered(house, 40))
        seconds = time.monotonic() - started

    # Each message may start the lane twice, once to be run and once to be parked; the rest is once a second.
    assert asked.count(AgentId("coder")) <= 6 + seconds


def _count_claims(house: House) -> list[AgentId]:
    """The agents whose lanes are claimed from now on, in order."""
    queue, asked = house.store.queue, list[AgentId]()
    original = queue.claim

    async def claim(agent: AgentId, **keywords: Any) -> Claim | None:
        asked.append(agent)
        return await original(agent, **keywords)

    queue.claim = claim  # type: ignore[method-assign]
    return asked


async def _answered(house: House, count: int) -> bool:
    return len(await house.responses()) >= count
