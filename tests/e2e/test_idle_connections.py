"""A real daemon with few file descriptors, and more idle connections than descriptors."""

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
from pathlib import Path

from tests.support.ports import free_port
from tests.support.raw_http import ask, request, status_of
from tinyagi.settings.home import Home

FILES = 256
IDLE = 300


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


async def test_a_daemon_with_256_files_answers_despite_300_idle_connections(tmp_path: Path) -> None:
    home, port = Home(tmp_path / "home"), free_port()
    home.prepare()
    home.settings_file.write_text(
        json.dumps(
            {
                "workspace": {"path": str(tmp_path / "workspace")},
                "agents": {"coder": {"provider": "scripted"}},
                "server": {"port": port},
            }
        )
    )
    daemon = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tinyagi", "run", "--home", str(home.path)),
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "TINYAGI_API_PORT"},
        preexec_fn=limit_files,
    )
    try:
        assert daemon.stderr is not None
        while b"Ctrl-C" not in (line := await daemon.stderr.readline()):
            assert line, "the daemon ended"
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(IDLE):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                stack.callback(writer.close)
            for _ in range(5):
                assert status_of(await ask(port, request(port))) == 200
        daemon.send_signal(signal.SIGTERM)
        assert await daemon.wait() == 0
    finally:
        if daemon.returncode is None:
            daemon.kill()
            await daemon.wait()
    lines = (home.logs / "daemon.log").read_text().splitlines()
    assert len(lines) < 30
    assert not any("Traceback" in line for line in lines)
