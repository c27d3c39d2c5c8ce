"""One process serves a home; a pid file of a dead process is stale."""

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from tinyagi.client.address import url_of
from tinyagi.daemon.pidfile import (
    AlreadyRunning,
    DaemonError,
    DaemonInfo,
    DaemonState,
    already_running_message,
    find_daemon,
    find_settled_daemon,
    hold_pid_file,
)
from tinyagi.settings.home import Home

AT_ONCE = timedelta()

HOLDER = """
import sys
from pathlib import Path
from tinyagi.daemon.pidfile import hold_pid_file
from tinyagi.settings.home import Home
with hold_pid_file(Home(Path(sys.argv[1])), "9.9") as file:
    if len(sys.argv) > 2:
        file.listening(sys.argv[2], int(sys.argv[3]))
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(home: Home, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the pid file until its stdin ends."""
    command = [sys.executable, "-c", HOLDER, str(home.path), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def unrelated_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_no_file_means_no_daemon(home: Home) -> None:
    assert find_daemon(home) == DaemonInfo(DaemonState.ABSENT)


def test_the_file_names_the_process_and_is_removed_with_it(home: Home) -> None:
    with hold_pid_file(home, "1.2.3") as file:
        written = json.loads(home.pid_file.read_text())
        mode = stat.S_IMODE(home.pid_file.stat().st_mode)
        begun = find_daemon(home)
        file.listening("127.0.0.1", 4711)
        running = find_daemon(home)

    assert written["pid"] == os.getpid()
    assert written["started"] == psutil.Process().create_time()
    assert (written["port"], written["version"]) == (None, "1.2.3")
    assert mode == 0o600
    assert begun.state is DaemonState.STARTING
    assert (running.state, running.url) == (DaemonState.RUNNING, "http://127.0.0.1:4711")
    assert not home.pid_file.exists()


def test_a_second_instance_is_refused_with_the_pid_and_the_remedy(home: Home) -> None:
    with (
        another_process(home, "127.0.0.1", "4711") as process,
        pytest.raises(AlreadyRunning) as refused,
        hold_pid_file(home, "1"),
    ):
        pass

    assert f"pid {process.pid} at http://127.0.0.1:4711" in str(refused.value)
    assert "tinyagi stop" in str(refused.value)
    assert "--home" in str(refused.value)


def test_a_killed_process_leaves_a_stale_file_that_the_next_one_replaces(home: Home) -> None:
    with another_process(home, "127.0.0.1", "4711") as process:
        process.kill()
        process.wait()
        left = find_daemon(home)

    assert (left.state, left.pid, left.url) == (DaemonState.STALE, process.pid, None)
    assert left.leftover == f"names process {process.pid}, which is gone"
    with hold_pid_file(home, "1"):
        assert find_daemon(home).pid == os.getpid()


def test_a_reused_pid_is_stale(home: Home) -> None:
    with unrelated_process() as stranger:
        home.pid_file.write_text(json.dumps({"pid": stranger.pid, "started": 12.5, "port": 1}))
        seen = find_daemon(home)
        assert seen.process is not None

        assert seen.state is DaemonState.STALE
        assert not seen.process.is_alive()
        assert "is another program now" in seen.leftover


def test_the_bare_number_of_the_original_is_stale(home: Home) -> None:
    home.pid_file.write_text(f"{os.getpid()}\n")

    assert find_daemon(home).state is DaemonState.STALE
    with hold_pid_file(home, "1"):
        assert json.loads(home.pid_file.read_text())["pid"] == os.getpid()


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"\x00\xff\xfe\x80" * 100, b"[1, 2]", b'{"pid": true}', b'{"pid": -4}', b"[" * 5000, b'{"pid": 1e99}'],
    ids=["empty", "blank", "binary", "list", "bool", "negative", "deep", "float"],
)
def test_a_malformed_file_does_not_block_the_home(home: Home, content: bytes) -> None:
    home.pid_file.write_bytes(content)

    assert find_daemon(home).state in {DaemonState.ABSENT, DaemonState.STALE}
    with hold_pid_file(home, "1"):
        assert find_daemon(home).state is DaemonState.STARTING


def test_an_impossible_pid_is_stale(home: Home) -> None:
    home.pid_file.write_text(json.dumps({"pid": 10**30, "started": 1.0}))

    assert "is gone" in find_daemon(home).leftover


def test_a_lock_without_a_pid_is_reported(home: Home) -> None:
    home.pid_file.write_text("who?")
    with home.pid_file.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(AlreadyRunning, match="does not say which one"), hold_pid_file(home, "1", timeout=AT_ONCE):
            pass

        assert find_daemon(home).state is DaemonState.UNKNOWN


def test_find_waits_for_a_daemon_that_has_just_locked_the_file(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with another_process(home) as process:
        written = home.pid_file.read_text()
        home.pid_file.write_text("")
        monkeypatch.setattr("tinyagi.daemon.pidfile.time.sleep", lambda _: home.pid_file.write_text(written))

        assert find_daemon(home).state is DaemonState.UNKNOWN
        assert find_settled_daemon(home).pid == process.pid


def test_a_process_on_another_machine_is_named_with_its_host(home: Home) -> None:
    home.pid_file.write_text(json.dumps({"pid": 7, "started": 1.0, "process": "far-away/boot/7/1", "port": 1}))
    with home.pid_file.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        seen = find_daemon(home)

    assert seen.state is DaemonState.UNKNOWN
    assert "pid 7 on far-away" in already_running_message(home, seen)


def test_a_reader_of_the_file_does_not_block_a_start(home: Home) -> None:
    home.pid_file.touch()
    looking = home.pid_file.open()
    fcntl.flock(looking, fcntl.LOCK_SH)
    attempts = 0

    def let_go(_: float) -> None:
        nonlocal attempts
        attempts += 1
        looking.close()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tinyagi.daemon.pidfile.time.sleep", let_go)
        with hold_pid_file(home, "1"):
            assert find_daemon(home).state is DaemonState.STARTING

    assert attempts == 1


def test_a_file_deleted_before_the_lock_is_created_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock
    home.pid_file.write_text("of one who is just going")

    def lock_too_late(descriptor: int, operation: int) -> None:
        monkeypatch.setattr("tinyagi.daemon.pidfile.fcntl.flock", flock)
        home.pid_file.unlink()
        flock(descriptor, operation)

    monkeypatch.setattr("tinyagi.daemon.pidfile.fcntl.flock", lock_too_late)

    with hold_pid_file(home, "1"):
        assert find_daemon(home).pid == os.getpid()


def test_the_file_of_a_successor_is_not_removed(home: Home) -> None:
    with ExitStack() as first:
        first.enter_context(hold_pid_file(home, "1"))
        home.pid_file.unlink()
        with another_process(home) as process:
            first.close()

            assert (find_daemon(home).state, find_daemon(home).pid) == (DaemonState.STARTING, process.pid)


def test_a_readable_file_is_made_private(home: Home) -> None:
    home.pid_file.touch(mode=0o644)
    home.pid_file.chmod(0o644)

    with hold_pid_file(home, "1"):
        assert stat.S_IMODE(home.pid_file.stat().st_mode) == 0o600


def test_a_symbolic_link_is_not_written_through(home: Home, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    home.pid_file.symlink_to(elsewhere)

    with pytest.raises(DaemonError, match="cannot be used"), hold_pid_file(home, "1"):
        pass
    assert elsewhere.read_text() == "mine"


def test_a_file_system_without_locks_is_reported(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("tinyagi.daemon.pidfile.fcntl.flock", refuse)

    with pytest.raises(DaemonError, match=r"no locks.*TINYAGI_HOME"), hold_pid_file(home, "1"):
        pass


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),  # noqa: S104
        ("::", "http://[::1]:80"),
        ("fd00::1", "http://[fd00::1]:80"),
    ],
)
def test_a_wildcard_address_becomes_loopback(host: str, expected: str) -> None:
    assert url_of(host, 80) == expected
