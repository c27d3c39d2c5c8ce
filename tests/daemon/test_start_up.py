"""The state of the daemon once it answers."""

import subprocess
import sys
from pathlib import Path

RUN = """
import asyncio, gc, os, signal, sys
from pathlib import Path
from tinyagi.settings.home import Home
from tinyagi.daemon.main import run_daemon

class Console:
    def say(self, text): pass
    def listening(self, host, port):
        print(gc.get_freeze_count())
        os.kill(os.getpid(), signal.SIGTERM)

home = Home(Path(sys.argv[1]))
home.prepare()
asyncio.run(run_daemon(home, Console()))
"""


def test_startup_objects_are_frozen_for_the_garbage_collector(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "settings.json").write_text('{"server": {"port": 0}}')
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "home")], capture_output=True, text=True, check=True, timeout=60
    )

    assert int(done.stdout) > 10_000
