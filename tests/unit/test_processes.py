"""Process identities: written and read as text, and distinguished from processes that only have the same pid."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.system import processes
from tinyagi.system.processes import ProcessIdentity, pid_file_fields, process_in, running_pid, this_process

CHILD: Final = "from tinyagi.system.processes import this_process; print(this_process(), flush=True); input()"
TICKS: Final = os.sysconf("SC_CLK_TCK")

needs_linux = pytest.mark.skipif(not psutil.LINUX, reason="older versions wrote start times on Linux only")

part = st.text(st.characters(exclude_characters="/~", codec="utf-8"), max_size=40)
identities = st.builds(
    ProcessIdentity,
    host=st.text(max_size=60),
    boot=part,
    pid=st.integers(min_value=1, max_value=2**22),
    started=st.none() | st.floats(min_value=0, max_value=1e10),
    nonce=part,
)


@contextmanager
def a_child() -> Iterator[tuple[subprocess.Popen[str], ProcessIdentity]]:
    """A process that prints its identity and lives until a line arrives on its stdin."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        yield child, ProcessIdentity.parse(child.stdout.readline().rstrip("\n"))


@pytest.fixture
def without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A system like macOS: no boot id, and start times by the wall clock."""
    monkeypatch.setattr(processes, "_BOOT_ID", tmp_path / "absent")
    monkeypatch.setattr(psutil, "LINUX", False)


def old_text(identity: ProcessIdentity) -> str:
    """How older versions wrote it on Linux: clock ticks, and no nonce."""
    assert identity.started is not None
    return f"{identity.host}/{identity.boot}/{identity.pid}/{round(identity.started * TICKS)}"


@given(identities)
def test_an_identity_reads_back_as_written(identity: ProcessIdentity) -> None:
    assert ProcessIdentity.parse(str(identity)) == identity


def test_a_host_name_may_contain_slashes() -> None:
    identity = ProcessIdentity("rack/7/web", "b-1", 42, 12.34, "abc")
    assert str(identity) == "rack/7/web/b-1/42/12.34/~abc"
    assert ProcessIdentity.parse("rack/7/web/b-1/42/1234") == replace(identity, started=1234 / TICKS, nonce="")


@pytest.mark.parametrize("text", ["", "7", "a/b/c", "host/boot/x/1", "host/boot/7/soon", "host/boot/7/soon/~n"])
def test_an_invalid_identity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        ProcessIdentity.parse(text)


def test_this_process_is_alive() -> None:
    assert this_process().pid == os.getpid()
    assert this_process() == this_process()
    assert this_process().is_alive() is True


def test_another_process_is_alive_until_it_has_finished() -> None:
    with a_child() as (child, identity):
        assert identity.pid == child.pid
        assert identity.is_alive() is True
        child.communicate("go\n")
        assert identity.is_alive() is False


def test_a_zombie_is_not_alive() -> None:
    with a_child() as (child, identity):
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert identity.is_alive() is False


def test_a_process_with_another_start_time_is_not_the_same() -> None:
    with a_child() as (child, identity):
        assert identity.started is not None
        assert replace(identity, started=identity.started - 10).is_alive() is False
        child.communicate("go\n")


def test_an_identity_with_another_nonce_is_not_alive() -> None:
    assert replace(this_process(), nonce="of another start").is_alive() is False
    assert replace(this_process(), nonce="").is_alive() is False


@needs_linux
def test_an_identity_written_by_an_older_version_lives_with_its_process() -> None:
    with a_child() as (child, identity):
        old = ProcessIdentity.parse(old_text(identity))
        assert old.is_alive() is True
        child.communicate("go\n")
        assert old.is_alive() is False


def test_an_identity_without_a_start_time_is_unknown_while_its_pid_is_in_use() -> None:
    with a_child() as (child, identity):
        old = ProcessIdentity.parse(f"{identity.host}/{identity.boot}/{identity.pid}/")
        assert old.is_alive() is None
        child.communicate("go\n")
        assert old.is_alive() is False


@pytest.mark.usefixtures("without_proc")
def test_without_proc_a_process_that_reuses_the_pid_is_not_the_same() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        created = psutil.Process(stranger.pid).create_time()
        same = replace(this_process(), pid=stranger.pid, started=created)

        assert same.boot == "unknown"
        assert same.is_alive() is True
        assert replace(same, started=created - 60).is_alive() is False
        stranger.communicate(b"go\n")


@needs_linux
def test_setting_the_clock_does_not_change_an_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_child() as (child, identity):
        boot_time = psutil._pslinux.boot_time
        # The kernel moves the boot time with the clock, and psutil's start times with the boot time.
        monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot_time() + 3_600)

        assert identity.is_alive() is True
        child.communicate("go\n")


def test_a_process_of_another_boot_is_not_alive() -> None:
    assert replace(this_process(), boot="another-boot").is_alive() is False


def test_a_process_of_another_host_is_unknown() -> None:
    assert replace(this_process(), host="another-host").is_alive() is None


def test_a_pid_file_can_be_read_by_this_and_older_versions() -> None:
    fields = json.loads(json.dumps(pid_file_fields()))

    assert process_in(fields) == this_process()
    assert (fields["pid"], fields["started"]) == (os.getpid(), psutil.Process().create_time())


def test_a_pid_file_in_an_unknown_format_is_matched_by_start_time() -> None:
    with a_child() as (child, identity):
        created = psutil.Process(child.pid).create_time()
        fields = {"pid": child.pid, "started": created, "process": "in a form of later versions"}
        same, other = process_in(fields), process_in({**fields, "started": created - 60})
        assert same is not None
        assert other is not None
        assert (identity.is_alive(), same.is_alive(), other.is_alive()) == (True, True, False)
        child.communicate("go\n")


@pytest.mark.parametrize("fields", [None, True, -4, "7", [], {}, {"pid": True}, {"pid": 0}, {"pid": "7"}, 1.5])
def test_fields_without_a_pid_give_no_process(fields: object) -> None:
    assert process_in(fields) is None


def test_a_bare_pid_is_ignored_when_its_process_is_younger_than_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tinyclaw.pid"
    assert running_pid(file) is None
    with a_child() as (child, _):
        file.write_text(f"{child.pid}\n", encoding="utf-8")
        assert running_pid(file) == child.pid
        created = psutil.Process(child.pid).create_time()
        os.utime(file, (created - 60, created - 60))
        assert running_pid(file) is None
        child.communicate("go\n")
