"""A stop sends SIGTERM first, is bounded in time, and never hits another process with the daemon's pid."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from tests.daemon.test_pidfile import another_process, unrelated_process
from tinyagi.daemon.control import stop_daemon, stop_timeout
from tinyagi.daemon.pidfile import DaemonError, DaemonState, find_daemon
from tinyagi.settings.home import Home
from tinyagi.settings.parse import parse_settings

PATIENCE = timedelta(seconds=20)

IGNORES_SIGTERM = """
import signal, sys
from pathlib import Path
from tinyagi.daemon.pidfile import hold_pid_file
from tinyagi.settings.home import Home
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with hold_pid_file(Home(Path(sys.argv[1])), "1"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def process_ignoring_sigterm(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", IGNORES_SIGTERM, str(home.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_daemon_gets_sigterm_and_is_waited_for(home: Home) -> None:
    said: list[str] = []
    with another_process(home) as process:
        stopped = stop_daemon(home, said.append, PATIENCE)

        assert stopped is not None
        assert stopped.pid == process.pid
        assert process.wait() == -15
        assert find_daemon(home).state is DaemonState.STALE
    assert said == []


def test_a_daemon_that_ignores_sigterm_is_killed_with_a_message(home: Home) -> None:
    said: list[str] = []
    with process_ignoring_sigterm(home) as process:
        stop_daemon(home, said.append, timedelta(milliseconds=100))

        assert process.wait() == -9
    assert "Killing it." in said[0]
    assert "Nothing is lost" in said[1]


def test_stop_without_a_daemon_does_nothing(home: Home) -> None:
    assert stop_daemon(home, print, PATIENCE) is None


def test_a_process_with_a_reused_pid_is_not_killed(home: Home) -> None:
    with unrelated_process() as stranger:
        home.pid_file.write_text(json.dumps({"pid": stranger.pid, "started": 1.0, "host": "127.0.0.1", "port": 1}))

        assert stop_daemon(home, print, PATIENCE) is None
        assert stranger.poll() is None


def test_a_process_with_a_wrong_pid_is_not_killed_while_the_lock_is_held(home: Home) -> None:
    with another_process(home) as holder, unrelated_process() as stranger:
        home.pid_file.write_text(json.dumps({"pid": stranger.pid, "started": 1.0}))

        with pytest.raises(DaemonError):
            stop_daemon(home, print, PATIENCE)
        assert stranger.poll() is None
        assert holder.poll() is None


def test_the_stop_timeout_is_the_grace_of_runs_plus_a_margin() -> None:
    settings = parse_settings({"queue": {"shutdown_grace_seconds": 60, "kill_grace_seconds": 7}})

    assert timedelta(seconds=67) < stop_timeout(settings) < timedelta(seconds=90)
