"""Events for plugins: which, in which order, and that a slow plugin delays no other."""

import asyncio
import json

import pytest

from tests.plugins.conftest import SHORT, Gate, LogQueue, PluginHome, event, have_ended
from tinyagi.plugins.plugin import CAPACITY, EventQueue

DIARY = """
    def activate(ctx):
        diary = ctx.home / f"{ctx.name}.txt"
        def write(event):
            with diary.open("a") as file:
                file.write(f"{event.type} {event.id}\\n")
        ctx.on("*", write)
"""
BLOCKED = """
    import os
    def activate(ctx):
        def handle(event):
            ctx.log.info("at %s", event.id)
            if event.id == 0:
                os.close(os.open(ctx.home / "gate", os.O_RDONLY))
        ctx.on("response_ready", handle)
"""


def diary_of(home: PluginHome, name: str) -> list[str]:
    return (home.path / f"{name}.txt").read_text().splitlines()


async def test_a_handler_gets_every_event_of_its_type_in_order(home: PluginHome, log_queue: LogQueue) -> None:
    home.write("a", "def activate(ctx): ctx.on('response_acked', lambda event: ctx.log.info('%s', event.id))")
    plugins = await home.load()

    for number, event_type in enumerate(["response_acked", "response_ready", "response_acked", "message_dead"]):
        plugins.dispatch(event(number, event_type))
    plugins.dispatch(event(9, "response_acked"))

    assert [await log_queue.next() for _ in range(3)] == ["0", "2", "9"]


async def test_a_star_means_every_event(home: PluginHome) -> None:
    home.write("diary", DIARY)
    plugins = await home.load()

    for number, event_type in enumerate(["message_received", "agent_progress", "response_ready"]):
        plugins.dispatch(event(number, event_type))
    await plugins.close()

    assert diary_of(home, "diary") == ["message_received 0", "agent_progress 1", "response_ready 2"]


async def test_handlers_run_in_the_order_of_their_registration(home: PluginHome, log_queue: LogQueue) -> None:
    home.write(
        "many",
        """
        def activate(ctx):
            async def later(event): ctx.log.info("third %s", event.id)
            ctx.on("*", lambda event: ctx.log.info("first %s", event.id))
            ctx.on("response_ready", lambda event: ctx.log.info("second %s", event.id))
            ctx.on("*", later)
        """,
    )
    plugins = await home.load()

    plugins.dispatch(event(1))
    plugins.dispatch(event(2))

    heard = [await log_queue.next() for _ in range(6)]
    assert heard == ["first 1", "second 1", "third 1", "first 2", "second 2", "third 2"]


async def test_only_a_plugin_with_a_handler_wants_events(home: PluginHome) -> None:
    home.write("hooks", "def transform_outgoing(text): return text")
    assert not (await home.load()).wants_events

    home.write("diary", DIARY)
    assert (await home.load()).wants_events


async def test_a_failing_handler_misses_only_one_event(
    home: PluginHome, log_queue: LogQueue, log: pytest.LogCaptureFixture
) -> None:
    home.write(
        "moody",
        """
        def activate(ctx):
            def handle(event):
                if event.id == 1:
                    raise SystemExit("bad mood")
                ctx.log.info("at %s", event.id)
            ctx.on("*", handle)
        """,
    )
    home.write("diary", DIARY)
    plugins = await home.load()

    plugins.dispatch(event(1))
    plugins.dispatch(event(2))

    assert await log_queue.next() == (
        "Plugin moody failed in its handler of response_ready: SystemExit: bad mood. Everything else continues."
    )
    assert await log_queue.next() == "at 2"
    await plugins.close()
    assert diary_of(home, "diary") == ["response_ready 1", "response_ready 2"]


async def test_a_handler_has_its_own_copy_of_the_payload(home: PluginHome, log_queue: LogQueue) -> None:
    home.write("a", "def activate(ctx): ctx.on('*', lambda event: event.payload['response'].clear())")
    home.write("b", "import json\ndef activate(ctx): ctx.on('*', lambda e: ctx.log.info(json.dumps(e.payload)))")
    plugins = await home.load()
    one = event(1)

    plugins.dispatch(one)

    assert json.loads(await log_queue.next()) == {"response": {"number": 1}}
    await plugins.close()
    assert one.payload == {"response": {"number": 1}}


async def test_a_slow_plugin_does_not_delay_others(home: PluginHome, gate: Gate, log_queue: LogQueue) -> None:
    home.write("slow", BLOCKED)
    home.write("other", "def activate(ctx): ctx.on('*', lambda event: ctx.log.info('other at %s', event.id))")
    plugins = await home.load()

    for number in range(3):
        plugins.dispatch(event(number))

    assert {await log_queue.next() for _ in range(4)} == {"at 0", "other at 0", "other at 1", "other at 2"}
    await gate.open()
    assert [await log_queue.next() for _ in range(2)] == ["at 1", "at 2"]


async def test_a_full_queue_drops_the_oldest_events_with_one_warning(
    home: PluginHome, gate: Gate, log_queue: LogQueue
) -> None:
    home.write("slow", BLOCKED)
    plugins = await home.load()
    plugins.dispatch(event(0))
    assert await log_queue.next() == "at 0"

    for number in range(1, CAPACITY + 6):
        plugins.dispatch(event(number))
    await gate.open()

    assert await log_queue.next() == "Plugin slow is too slow: 1000 events wait for it, the oldest are dropped."
    assert [await log_queue.next() for _ in range(CAPACITY)] == [f"at {number}" for number in range(6, CAPACITY + 6)]


async def test_an_event_queue_warns_once_per_burst() -> None:
    box = EventQueue(capacity=2)

    assert [box.put(event(number)) for number in range(5)] == [True, True, False, True, True]
    assert await box.next() == event(3)
    assert [box.put(event(number)) for number in range(5, 7)] == [True, True]
    assert [await box.next() for _ in range(2)] == [event(5), event(6)]
    assert [box.put(event(number)) for number in range(7, 11)] == [True, True, False, True]


async def test_a_closed_event_queue_is_drained_and_takes_no_more() -> None:
    box = EventQueue()
    box.put(event(1))

    box.close()
    box.put(event(2))

    assert [await box.next() for _ in range(2)] == [event(1), None]


async def test_a_hanging_handler_is_abandoned_and_the_next_event_handled(
    home: PluginHome, gate: Gate, log_queue: LogQueue
) -> None:
    home.write("slow", BLOCKED)
    plugins = await home.load(limit=SHORT)

    plugins.dispatch(event(0))
    plugins.dispatch(event(1))

    assert await log_queue.next() == "at 0"
    assert "its handler of response_ready: it took longer than 1 s" in await log_queue.next()
    assert await log_queue.next() == "at 1"


async def test_a_slow_async_handler_is_cancelled(home: PluginHome, log_queue: LogQueue) -> None:
    home.write(
        "slow",
        """
        import asyncio
        def activate(ctx):
            async def handle(event):
                try:
                    await asyncio.sleep(3600)
                finally:
                    ctx.log.info("cancelled")
            ctx.on("*", handle)
        """,
    )
    plugins = await home.load(limit=SHORT)

    plugins.dispatch(event())

    assert await log_queue.next() == "cancelled"


async def test_a_handler_that_always_fails_is_switched_off(home: PluginHome, log_queue: LogQueue) -> None:
    home.write("bad", "def activate(ctx): ctx.on('*', lambda event: 1 / 0)")
    plugins = await home.load()

    for number in range(20):
        plugins.dispatch(event(number))

    heard = [await log_queue.next() for _ in range(5)]
    assert heard[-1] == (
        "Plugin bad is switched off after 5 failures, "
        "the last in its handler of response_ready: ZeroDivisionError: division by zero. Fix it and restart."
    )
    assert not plugins.wants_events
    plugins.dispatch(event(21))
    assert await have_ended("bad")


async def test_waiting_events_are_handled_before_the_end(home: PluginHome) -> None:
    home.write("diary", DIARY)
    plugins = await home.load()

    for number in range(200):
        plugins.dispatch(event(number))
    await plugins.close()
    plugins.dispatch(event(200))

    assert diary_of(home, "diary") == [f"response_ready {number}" for number in range(200)]


async def test_close_does_not_wait_for_a_long_queue(home: PluginHome, log: pytest.LogCaptureFixture) -> None:
    home.write(
        "slow",
        """
        import time
        def activate(ctx):
            def handle(event):
                time.sleep(0.2)
                ctx.log.info("at %s", event.id)
            ctx.on("*", handle)
        """,
    )
    plugins = await home.load(limit=SHORT)

    for number in range(CAPACITY):
        plugins.dispatch(event(number))
    await plugins.close()

    assert 0 < len(log.records) < CAPACITY


async def test_close_does_not_wait_for_a_hanging_handler(home: PluginHome, gate: Gate, log_queue: LogQueue) -> None:
    home.write("slow", BLOCKED)
    plugins = await home.load(limit=SHORT)
    plugins.dispatch(event(0))
    assert await log_queue.next() == "at 0"

    await asyncio.wait_for(plugins.close(), 60)
