"""Maintenance of an engine: recovery, pruning, live text, changed settings, start and stop."""

import asyncio
import random
from dataclasses import replace

import psutil

from tests.engine.conftest import House
from tests.support.puppet import Gate
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import NewMessage, Status
from tinyagi.store.store import Store
from tinyagi.system.processes import ProcessIdentity, process_in, this_process


async def test_claims_of_a_dead_process_are_recovered_at_the_start(house: House) -> None:
    await _leave_a_claim(house, replace(this_process(), pid=2**22 - 1, started=1.0))
    async with house.open():
        await house.drained()
        (recovered,) = await house.events("message_recovered")
        (message,) = await house.messages()

    assert recovered.payload["attempt"] == 1
    assert message.status is Status.COMPLETED
    assert house.puppet.prompts_of("coder")[0].startswith("[This is attempt 2")


async def test_claims_of_a_process_that_dies_later_are_recovered(house: House) -> None:
    process = await asyncio.create_subprocess_exec("sleep", "300")
    try:
        owner = process_in({"pid": process.pid, "started": psutil.Process(process.pid).create_time()})
        assert owner is not None
        await _leave_a_claim(house, owner)
        async with house.open():
            assert not await house.events("message_recovered")
            process.kill()
            await process.wait()
            await house.drained()

            assert await house.events("message_recovered")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_old_completed_messages_are_pruned(house: House) -> None:
    house.settings["queue"] |= {"keep_completed_hours": 0, "maintenance_seconds": 0.05}
    async with house.open():
        sent = await house.send("@coder go")
        await house.drained()

        async def is_gone() -> bool:
            return await house.store.queue.message(1) is None

        await house.until(is_gone)

    assert sent.message_id


async def test_output_of_a_run_is_published_while_it_runs(house: House) -> None:
    gate = house.puppet.plays["coder"] = Gate()
    async with house.open():
        with house.engine.live.listening() as heard:
            await house.send("@coder go")
            progress = await heard.get()
            await gate.reached.wait()
            (run,) = house.engine.runs()
            text = house.engine.live.text_of(run.claim.id)
            gate.open.set()
            await house.drained()

        assert house.engine.live.text_of(run.claim.id) == ""

    assert (progress.message.agent, progress.event.text, text) == ("coder", "coder works on it", "coder works on it")


async def test_a_slow_listener_does_not_delay_runs(house: House) -> None:
    async with house.open():
        with house.engine.live.listening() as deaf:
            for number in range(300):
                await house.send(f"@coder {number}", sender=f"p{number}")
            await house.drained()

            assert deaf.qsize() <= 256


async def test_a_settings_change_applies_to_the_next_run(house: House) -> None:
    async with house.open():
        house.settings["agents"]["coder"]["model"] = "better"
        house.write_settings()
        version = house.engine.settings.version
        await house.engine.settings.beyond(
            version - 1 if house.engine.settings.current.agents["coder"].model else version
        )
        await house.send("@coder go")
        await house.drained()

    assert house.puppet.requests[0].model == "better"


async def test_an_invalid_settings_edit_is_recorded_and_ignored(house: House) -> None:
    async with house.open():
        house.home.settings_file.write_text('{"agents": {"coder": {"provider": "nonsense"}}}')
        rejected = await house.until_event("settings_rejected")
        await house.send("@coder go")
        await house.drained()

    assert "nonsense" in rejected.payload["reason"]


async def test_start_and_stop_are_recorded(house: House) -> None:
    async with house.open():
        pass
    async with house.open(start=False):
        types = [event.type for event in await house.events()]

    assert types[:2] == ["processor_start", "processor_stop"]


async def test_an_idle_engine_writes_nothing(house: House) -> None:
    async with house.open():
        before = (await house.store.events.bounds()).head

        async def is_quiet() -> bool:
            return await house.store.events.cursor("chats") == before

        await house.until(is_quiet)
        version = house.store.changes.version
        # Long enough for several rounds of recovery, which FAST asks for every 50 ms.
        await asyncio.sleep(0.3)

        # The watcher may still notice the last commit of this engine.
        assert house.store.changes.version - version <= 1
        assert (await house.store.events.bounds()).head == before


async def test_ten_thousand_pending_messages_start_no_runs_in_a_paused_lane(house: House) -> None:
    async with house.open(start=False):
        await house.store.lanes.pause(AgentId("coder"))
        batch = [NewMessage("x", AgentId("coder"), sender=f"p{number}") for number in range(10_000)]
        await house.store.queue.enqueue_many(batch)
        await house.engine.start()
        await house.send("@writer hello")
        await house.until_event("response_ready")

        assert house.engine.runs() == ()


async def _leave_a_claim(house: House, owner: ProcessIdentity) -> None:
    """Another process claims a message and does not finish it."""
    house.home.prepare()
    async with await Store.open(house.home.database, owner=owner, dice=random.Random(3)) as other:
        await other.queue.enqueue(NewMessage("go", AgentId("coder")))
        assert await other.queue.claim(AgentId("coder")) is not None
