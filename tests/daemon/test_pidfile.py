"""One process works on a home; what a dead one left behind never counts."""

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

from tinyagi.daemon.errors import AlreadyRunning, DaemonError
from tinyagi.daemon.pidfile import Sighting, State, address, held, look, look_patiently, refusal
from tinyagi.settings.home import Home

AT_ONCE = timedelta()

HOLDER = """
import sys
from pathlib import Path
from tinyagi.daemon.pidfile import held
from tinyagi.settings.home import Home
with held(Home(Path(sys.argv[1])), "9.9") as file:
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
def a_stranger() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def test_nobody_is_there_without_a_file(home: Home) -> None:
    assert look(home) == Sighting(State.ABSENT)


def test_the_file_names_the_process_and_goes_with_it(home: Home) -> None:
    with held(home, "1.2.3") as file:
        written = json.loads(home.pid_file.read_text())
        mode = stat.S_IMODE(home.pid_file.stat().st_mode)
        begun = look(home)
        file.listening("127.0.0.1", 4711)
        running = look(home)

    assert written["pid"] == os.getpid()
    assert written["started"] == psutil.Process().create_time()
    assert (written["port"], written["version"]) == (None, "1.2.3")
    assert mode == 0o600
    assert begun.state is State.STARTING
    assert (running.state, running.url) == (State.RUNNING, "http://127.0.0.1:4711")
    assert not home.pid_file.exists()


def test_a_second_instance_is_refused_with_the_pid_and_the_remedy(home: Home) -> None:
    with (
        another_process(home, "127.0.0.1", "4711") as process,
        pytest.raises(AlreadyRunning) as refused,
        held(home, "1"),
    ):
        pass

    assert f"pid {process.pid} at http://127.0.0.1:4711" in str(refused.value)
    assert "tinyagi stop" in str(refused.value)
    assert "--home" in str(refused.value)


def test_a_killed_process_leaves_a_stale_file_that_the_next_one_replaces(home: Home) -> None:
    with another_process(home, "127.0.0.1", "4711") as process:
        process.kill()
        process.wait()
        left = look(home)

    assert (left.state, left.pid, left.url) == (State.STALE, process.pid, None)
    assert left.leftover == f"names process {process.pid}, which is gone"
    with held(home, "1"):
        assert look(home).pid == os.getpid()


def test_a_number_that_another_process_has_by_now_is_stale(home: Home) -> None:
    with a_stranger() as stranger:
        home.pid_file.write_text(json.dumps({"pid": stranger.pid, "started": 12.5, "port": 1}))
        seen = look(home)
        assert seen.process is not None

        assert seen.state is State.STALE
        assert not seen.process.is_alive()
        assert "is another program by now" in seen.leftover


def test_the_bare_number_of_the_original_is_stale(home: Home) -> None:
    home.pid_file.write_text(f"{os.getpid()}\n")

    assert look(home).state is State.STALE
    with held(home, "1"):
        assert json.loads(home.pid_file.read_text())["pid"] == os.getpid()


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"\x00\xff\xfe\x80" * 100, b"[1, 2]", b'{"pid": true}', b'{"pid": -4}', b"[" * 5000, b'{"pid": 1e99}'],
    ids=["empty", "blank", "binary", "list", "bool", "negative", "deep", "float"],
)
def test_whatever_the_file_holds_the_home_can_be_used(home: Home, content: bytes) -> None:
    home.pid_file.write_bytes(content)

    assert look(home).state in {State.ABSENT, State.STALE}
    with held(home, "1"):
        assert look(home).state is State.STARTING


def test_a_number_beyond_every_pid_is_stale(home: Home) -> None:
    home.pid_file.write_text(json.dumps({"pid": 10**30, "started": 1.0}))

    assert "is gone" in look(home).leftover


def test_a_lock_without_a_name_is_told_as_such(home: Home) -> None:
    home.pid_file.write_text("who?")
    with home.pid_file.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(AlreadyRunning, match="does not say which one"), held(home, "1", patience=AT_ONCE):
            pass

        assert look(home).state is State.UNKNOWN


def test_a_daemon_that_has_just_locked_the_file_is_waited_for(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with another_process(home) as process:
        written = home.pid_file.read_text()
        home.pid_file.write_text("")
        monkeypatch.setattr("tinyagi.daemon.pidfile.time.sleep", lambda _: home.pid_file.write_text(written))

        assert look(home).state is State.UNKNOWN
        assert look_patiently(home).pid == process.pid


def test_a_process_on_another_machine_is_named_with_its_machine(home: Home) -> None:
    home.pid_file.write_text(json.dumps({"pid": 7, "started": 1.0, "process": "far-away/boot/7/1", "port": 1}))
    with home.pid_file.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        seen = look(home)

    assert seen.state is State.UNKNOWN
    assert "pid 7 on far-away" in refusal(home, seen)


def test_whoever_only_looks_does_not_keep_a_daemon_from_beginning(home: Home) -> None:
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
        with held(home, "1"):
            assert look(home).state is State.STARTING

    assert attempts == 1


def test_a_file_that_was_taken_away_meanwhile_is_not_locked_in_vain(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock
    home.pid_file.write_text("of one who is just going")

    def lock_too_late(descriptor: int, operation: int) -> None:
        monkeypatch.setattr("tinyagi.daemon.pidfile.fcntl.flock", flock)
        home.pid_file.unlink()
        flock(descriptor, operation)

    monkeypatch.setattr("tinyagi.daemon.pidfile.fcntl.flock", lock_too_late)

    with held(home, "1"):
        assert look(home).pid == os.getpid()


def test_the_file_of_a_successor_is_not_taken_away(home: Home) -> None:
    with ExitStack() as first:
        first.enter_context(held(home, "1"))
        home.pid_file.unlink()
        with another_process(home) as process:
            first.close()

            assert (look(home).state, look(home).pid) == (State.STARTING, process.pid)


def test_a_file_that_others_could_read_is_made_private(home: Home) -> None:
    home.pid_file.touch(mode=0o644)
    home.pid_file.chmod(0o644)

    with held(home, "1"):
        assert stat.S_IMODE(home.pid_file.stat().st_mode) == 0o600


def test_a_link_is_not_followed_to_be_written(home: Home, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    home.pid_file.symlink_to(elsewhere)

    with pytest.raises(DaemonError, match="cannot be used"), held(home, "1"):
        pass
    assert elsewhere.read_text() == "mine"


def test_a_file_system_without_locks_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("tinyagi.daemon.pidfile.fcntl.flock", refuse)

    with pytest.raises(DaemonError, match=r"no locks.*TINYAGI_HOME"), held(home, "1"):
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
def test_the_address_is_one_that_can_be_opened(host: str, expected: str) -> None:
    assert address(host, 80) == expected
