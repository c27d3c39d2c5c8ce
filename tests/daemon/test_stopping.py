"""A stop is polite first, bounded in time, and never hits a process that only has the daemon's number."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from tests.daemon.test_pidfile import a_stranger, another_process
from tinyagi.daemon.control import stop_daemon, stop_timeout
from tinyagi.daemon.pidfile import DaemonError, DaemonState, find_daemon
from tinyagi.settings.home import Home
from tinyagi.settings.parse import parse_settings

PATIENCE = timedelta(seconds=20)

DEAF = """
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
def a_deaf_process(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", DEAF, str(home.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_daemon_is_asked_to_end_and_waited_for(home: Home) -> None:
    said: list[str] = []
    with another_process(home) as process:
        stopped = stop_daemon(home, said.append, PATIENCE)

        assert stopped is not None
        assert stopped.pid == process.pid
        assert process.wait() == -15
        assert find_daemon(home).state is DaemonState.STALE
    assert said == []


def test_a_daemon_that_does_not_listen_is_killed_with_a_word(home: Home) -> None:
    said: list[str] = []
    with a_deaf_process(home) as process:
        stop_daemon(home, said.append, timedelta(milliseconds=100))

        assert process.wait() == -9
    assert "Killing it." in said[0]
    assert "Nothing is lost" in said[1]


def test_nobody_is_stopped_when_nobody_runs(home: Home) -> None:
    assert stop_daemon(home, print, PATIENCE) is None


def test_a_stranger_with_the_number_of_a_dead_daemon_is_left_alone(home: Home) -> None:
    with a_stranger() as stranger:
        home.pid_file.write_text(json.dumps({"pid": stranger.pid, "started": 1.0, "host": "127.0.0.1", "port": 1}))

        assert stop_daemon(home, print, PATIENCE) is None
        assert stranger.poll() is None


def test_a_stranger_is_left_alone_even_when_somebody_holds_the_lock(home: Home) -> None:
    with another_process(home) as holder, a_stranger() as stranger:
        home.pid_file.write_text(json.dumps({"pid": stranger.pid, "started": 1.0}))

        with pytest.raises(DaemonError):
            stop_daemon(home, print, PATIENCE)
        assert stranger.poll() is None
        assert holder.poll() is None


def test_the_patience_is_what_runs_are_given_and_a_margin() -> None:
    settings = parse_settings({"queue": {"shutdown_grace_seconds": 60, "kill_grace_seconds": 7}})

    assert timedelta(seconds=67) < stop_timeout(settings) < timedelta(seconds=90)
