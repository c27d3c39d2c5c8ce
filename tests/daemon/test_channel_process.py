"""The daemon keeps a channel's process running: restarts, refusals, output, and the end with the daemon."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from tests.support.waiting import eventually
from tinyagi.daemon.channel_process import NEEDS_FIX, ChannelProcess
from tinyagi.settings.home import Home

pytestmark = pytest.mark.timeout(60)

PAUSE = timedelta(milliseconds=10)


def process_of(tmp_path: Path, code: str, released: list[str]) -> ChannelProcess:
    home = Home(tmp_path)
    home.prepare()
    command = (sys.executable, "-c", code)
    return ChannelProcess("telegram", home, dict(os.environ), lambda: released.append("x"), command, PAUSE)


async def test_a_process_that_ends_is_started_again_and_its_last_words_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    released: list[str] = []
    channel = process_of(tmp_path, "import sys; print('noise'); sys.exit('tinyagi: the network is away')", released)
    await channel.start()
    await channel.start()
    await eventually(lambda: channel.restarts >= 2)
    assert channel.running
    assert channel.last_error == "the network is away"
    await channel.stop()
    await channel.stop()
    assert not channel.running
    assert channel.last_error is None
    assert len(released) >= 2, "the lease of an ended process is free"
    assert "the network is away" in caplog.text


async def test_a_process_that_needs_a_fix_is_not_started_again(tmp_path: Path) -> None:
    channel = process_of(
        tmp_path, f"import sys; print('the token is wrong', file=sys.stderr); raise SystemExit({NEEDS_FIX})", []
    )
    await channel.start()
    await eventually(lambda: not channel.running)
    assert (channel.last_error, channel.restarts) == ("the token is wrong", 0)
    await channel.start()
    assert channel.running
    await channel.stop()


async def test_a_killed_process_is_started_again(tmp_path: Path) -> None:
    mark = tmp_path / "pids"
    code = f"import os, time; open({str(mark)!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(60)"
    channel = process_of(tmp_path, code, [])
    await channel.start()
    await eventually(lambda: mark.exists() and mark.read_text().endswith("\n"))
    first = int(mark.read_text())
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: len(mark.read_text().splitlines()) == 2)
    second = int(mark.read_text().splitlines()[1])
    await channel.stop()
    assert not psutil.pid_exists(second)


def test_a_relay_ends_with_a_killed_daemon(tmp_path: Path) -> None:
    """The relay's process reads the end of its input, whatever ended the daemon."""
    mark = tmp_path / "pid"
    relay = (
        "import asyncio, os\n"
        "from tinyagi.channels.process import cancel_at_end_of_input\n"
        "async def main():\n"
        "    task = asyncio.create_task(asyncio.sleep(60))\n"
        "    await cancel_at_end_of_input(task)\n"
        f"    open({str(mark)!r}, 'w').write(f'{{os.getpid()}}\\n')\n"
        "    await asyncio.wait([task])\n"
        "asyncio.run(main())\n"
    )
    daemon = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from tinyagi.daemon.channel_process import ChannelProcess\n"
        "from tinyagi.settings.home import Home\n"
        "async def main():\n"
        f"    home = Home(Path({str(tmp_path)!r}))\n"
        f"    await ChannelProcess('telegram', home, os.environ, print, (sys.executable, '-c', {relay!r})).start()\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", daemon])
    try:
        while not (mark.exists() and mark.read_text().endswith("\n")):
            assert process.poll() is None
        child = psutil.Process(int(mark.read_text()))
    finally:
        process.kill()
        process.wait()
    child.wait(20)
