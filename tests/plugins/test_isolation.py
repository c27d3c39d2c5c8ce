"""A misbehaving plugin never stops texts, other plugins or the end of the process."""

import asyncio
import errno
import subprocess
import sys
import textwrap

import pytest

from tests.plugins.conftest import CONTEXT, SHORT, Gate, LogQueue, PluginHome, have_ended, threads_of
from tinyagi.plugins import plugin
from tinyagi.plugins.specs import Transformed

GOOD = "def transform_outgoing(text, ctx): return f'{text} (good)'"
ENDLESS = """
    def transform_outgoing(text, ctx):
        while True:
            pass
"""
BLOCKING = """
    import os
    def transform_outgoing(text, ctx):
        if text == "hang":
            os.open(ctx.home / "gate", os.O_RDONLY)
        return text.upper()
"""
MOODY = """
    def transform_outgoing(text, ctx):
        if text == "bad":
            raise ValueError("bad mood")
        return text.upper()
"""


def lines(log: pytest.LogCaptureFixture, level: str) -> list[str]:
    return [record.getMessage() for record in log.records if record.levelname == level]


@pytest.mark.parametrize(
    "source",
    [
        "def transform_outgoing(text, ctx): raise ValueError('no')",
        "async def transform_outgoing(text, ctx): raise ValueError('no')",
        "import sys\ndef transform_outgoing(text, ctx): sys.exit()",
        "import sys\nasync def transform_outgoing(text, ctx): sys.exit()",
        "def transform_outgoing(text, ctx): raise KeyboardInterrupt",
        "async def transform_outgoing(text, ctx): raise KeyboardInterrupt",
        "def transform_outgoing(text, ctx): raise StopIteration",
        "import asyncio\ndef transform_outgoing(text, ctx): raise asyncio.CancelledError",
        "from asyncio import *\nasync def transform_outgoing(text): current_task().cancel(); await sleep(3600)",
        "from asyncio import *\nasync def transform_outgoing(text): get_running_loop().stop(); await sleep(3600)",
        "from asyncio import *\nasync def transform_outgoing(): get_running_loop().call_soon(exit); await sleep(3600)",
        "class Rude(Exception):\n    def __str__(self): raise self\ndef transform_outgoing(text, ctx): raise Rude",
    ],
)
async def test_a_failing_hook_leaves_the_text_to_the_next_plugin(
    home: PluginHome, log: pytest.LogCaptureFixture, source: str
) -> None:
    home.write("bad", source)
    home.write("good", GOOD)

    plugins = await home.load()

    for _ in range(2):
        assert await plugins.outgoing("hello", CONTEXT) == Transformed("hello (good)")
    assert len(lines(log, "WARNING")) == 2
    assert all(line.startswith("Plugin bad failed in transform_outgoing: ") for line in lines(log, "WARNING"))


async def test_an_endless_loop_is_ended_and_the_next_plugin_runs(
    home: PluginHome, log: pytest.LogCaptureFixture
) -> None:
    home.write("bad", ENDLESS)
    home.write("good", GOOD)
    plugins = await home.load(limit=SHORT)

    assert await plugins.outgoing("hello", CONTEXT) == Transformed("hello (good)")

    assert lines(log, "WARNING") == [
        "Plugin bad failed in transform_outgoing: it took longer than 1 s (plugins.timeout_seconds). "
        "Everything else continues."
    ]
    assert await have_ended("bad")


async def test_a_plugin_without_a_thread_is_switched_off(home: PluginHome, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(plugin, "PluginThread", full)
    home.write("good", GOOD)

    plugins = await home.load()

    assert plugins.loaded[0].error == "OSError: [Errno 24] Too many open files"
    assert await plugins.outgoing("hello", CONTEXT) == Transformed("hello")


async def test_plugins_run_in_daemon_threads(home: PluginHome) -> None:
    home.write("good", GOOD)

    await home.load()

    (thread,) = threads_of("good")
    assert thread.daemon


@pytest.mark.parametrize("body", ["while True: pass", "threading.Event().wait()", "time.sleep(3600)"])
def test_a_process_ends_while_a_plugin_hangs(home: PluginHome, body: str) -> None:
    home.write("bad", f"import threading, time\nasync def transform_outgoing(text, ctx):\n    {body}")
    program = """
        import asyncio, sys
        from datetime import timedelta
        from pathlib import Path
        from tests.plugins.conftest import CONTEXT
        from tinyagi.plugins.plugin import Plugins

        async def main(home):
            plugins = await Plugins.load(home / "plugins", home=home, timeout=timedelta(milliseconds=300))
            print((await plugins.outgoing("hello", CONTEXT)).text)
            await plugins.close()

        asyncio.run(main(Path(sys.argv[1])))
    """

    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program), str(home.path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert ended.stdout == "hello\n"
    assert "Traceback" not in ended.stderr


async def test_a_blocking_async_hook_does_not_block_the_loop(home: PluginHome, gate: Gate) -> None:
    home.write("bad", "async def transform_outgoing(text, ctx): return (ctx.home / 'gate').read_text() + 'through'")
    plugins = await home.load()

    passing = asyncio.create_task(plugins.outgoing("hello", CONTEXT))
    await gate.open()

    assert (await passing).text == "through"


async def test_a_slow_async_hook_is_cancelled_and_keeps_its_thread(home: PluginHome, log_queue: LogQueue) -> None:
    home.write(
        "slow",
        """
        import asyncio
        def activate(ctx):
            global log
            log = ctx.log
        async def transform_outgoing(text, ctx):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                log.info("cancelled")
                raise
        """,
    )
    plugins = await home.load(limit=SHORT)
    threads = threads_of("slow")

    assert await plugins.outgoing("hello", CONTEXT) == Transformed("hello")

    assert await log_queue.next() == "cancelled"
    assert threads_of("slow") == threads


async def test_an_async_hook_that_ignores_cancellation_is_abandoned(home: PluginHome) -> None:
    home.write(
        "stubborn",
        """
        import asyncio
        async def transform_outgoing(text, ctx):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                await asyncio.sleep(3600)
        """,
    )
    plugins = await home.load(limit=SHORT)

    assert await plugins.outgoing("hello", CONTEXT) == Transformed("hello")

    assert await have_ended("stubborn")


async def test_a_plugin_gets_a_new_thread_after_a_hanging_call(home: PluginHome, gate: Gate) -> None:
    home.write("moody", BLOCKING)
    plugins = await home.load(limit=SHORT)

    assert await plugins.outgoing("hang", CONTEXT) == Transformed("hang")
    assert await plugins.outgoing("hello", CONTEXT) == Transformed("HELLO")

    assert len(threads_of("moody")) == 2


async def test_a_plugin_gets_a_new_thread_after_stopping_its_own(home: PluginHome) -> None:
    home.write(
        "moody",
        """
        import asyncio
        async def transform_outgoing(text):
            if text == "leave":
                asyncio.get_running_loop().stop()
                await asyncio.sleep(3600)
            return text.upper()
        """,
    )
    plugins = await home.load()

    assert await plugins.outgoing("leave", CONTEXT) == Transformed("leave")
    assert await have_ended("moody")

    assert await plugins.outgoing("hello", CONTEXT) == Transformed("HELLO")


async def test_a_plugin_is_switched_off_after_five_failures_in_a_row(
    home: PluginHome, log: pytest.LogCaptureFixture
) -> None:
    home.write("moody", MOODY)
    home.write("other", GOOD)
    plugins = await home.load()

    for _ in range(7):
        assert (await plugins.outgoing("bad", CONTEXT)).text == "bad (good)"

    assert len(lines(log, "WARNING")) == 4
    reason = "switched off after 5 failures, the last in transform_outgoing: ValueError: bad mood"
    assert lines(log, "ERROR") == [f"Plugin moody is {reason}. Fix it and restart."]
    moody, other = plugins.loaded
    assert (moody.error, other.error) == (reason, None)
    assert (await plugins.outgoing("hello", CONTEXT)).text == "hello (good)"
    assert await have_ended("moody")


async def test_a_success_resets_the_count_of_failures(home: PluginHome) -> None:
    home.write("moody", MOODY)
    plugins = await home.load()

    for text in ["bad", "bad", "bad", "bad", "good"] * 3:
        await plugins.outgoing(text, CONTEXT)

    assert (await plugins.outgoing("hello", CONTEXT)).text == "HELLO"


async def test_hanging_calls_switch_a_plugin_off_despite_successes_between(
    home: PluginHome, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "MAX_FAILURES", 2)
    home.write("moody", BLOCKING)
    plugins = await home.load(limit=SHORT)

    for text in ("hang", "hello", "hang"):
        await plugins.outgoing(text, CONTEXT)

    assert plugins.loaded[0].error is not None
    assert await plugins.outgoing("hello", CONTEXT) == Transformed("hello")


async def test_concurrent_failures_switch_the_plugin_off_with_one_log_line(
    home: PluginHome, log: pytest.LogCaptureFixture
) -> None:
    home.write("bad", "import asyncio\nasync def transform_outgoing(text):\n    await asyncio.sleep(0)\n    1 / 0")
    plugins = await home.load()

    await asyncio.gather(*(plugins.outgoing("hello", CONTEXT) for _ in range(20)))

    assert len(lines(log, "ERROR")) == 1
    assert len(lines(log, "WARNING")) == 4


async def test_sync_hooks_run_one_at_a_time_and_waiting_does_not_count_as_run_time(
    home: PluginHome, log: pytest.LogCaptureFixture
) -> None:
    home.write(
        "slow",
        """
        import time
        running = 0
        def transform_outgoing(text):
            global running
            running += 1
            time.sleep(0.5)
            running -= 1
            return f"{text} {running}"
        """,
    )
    plugins = await home.load(limit=2 * SHORT)

    texts = await asyncio.gather(*(plugins.outgoing(f"text {n}", CONTEXT) for n in range(6)))

    assert [transformed.text for transformed in texts] == [f"text {n} 0" for n in range(6)]


async def test_async_hooks_of_a_plugin_run_concurrently(home: PluginHome) -> None:
    home.write(
        "meeting",
        """
        import asyncio
        met = asyncio.Barrier(2)
        async def transform_outgoing(text):
            await met.wait()
            return "met"
        """,
    )
    plugins = await home.load()

    both = await asyncio.gather(plugins.outgoing("", CONTEXT), plugins.outgoing("", CONTEXT))

    assert [transformed.text for transformed in both] == ["met", "met"]


async def test_a_cancelled_caller_cancels_the_hook_without_a_failure(
    home: PluginHome, log_queue: LogQueue, log: pytest.LogCaptureFixture
) -> None:
    home.write(
        "slow",
        """
        import asyncio
        def activate(ctx):
            global log
            log = ctx.log
        async def transform_outgoing(text):
            try:
                log.info("begun")
                await asyncio.sleep(3600)
            finally:
                log.info("ended")
        """,
    )
    plugins = await home.load()
    passing = asyncio.create_task(plugins.outgoing("hello", CONTEXT))
    assert await log_queue.next() == "begun"

    passing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await passing

    assert await log_queue.next() == "ended"
    assert lines(log, "WARNING") == []


async def test_all_code_of_a_plugin_runs_in_one_thread(home: PluginHome) -> None:
    home.write(
        "same",
        """
        import threading
        threads = {threading.get_ident()}
        def activate(ctx): threads.add(threading.get_ident())
        def transform_incoming(text): threads.add(threading.get_ident())
        async def transform_outgoing(text):
            threads.add(threading.get_ident())
            return str(len(threads))
        """,
    )
    plugins = await home.load()
    await plugins.incoming("", CONTEXT)

    assert (await plugins.outgoing("", CONTEXT)).text == "1"


async def test_tasks_of_a_plugin_are_cancelled_at_the_end(home: PluginHome, log_queue: LogQueue) -> None:
    home.write(
        "busy",
        """
        import asyncio
        async def work(log):
            try:
                await asyncio.sleep(3600)
            finally:
                log.info("tidied up")
        async def activate(ctx):
            global task
            task = asyncio.create_task(work(ctx.log))
            await asyncio.sleep(0)
        """,
    )
    plugins = await home.load()

    await plugins.close()

    assert await log_queue.next() == "tidied up"


async def test_closed_plugins_leave_texts_unchanged(home: PluginHome) -> None:
    home.write("good", GOOD)
    plugins = await home.load()

    await plugins.close()
    await plugins.close()

    assert await plugins.outgoing("hello", CONTEXT) == Transformed("hello")
