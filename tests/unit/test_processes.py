"""Owners of claims: written and read as text, and told apart from processes that only look like them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.store.owner import Owner, is_alive, this_process

CHILD: Final = "from tinyagi.store.owner import this_process; print(this_process(), flush=True); input()"

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="start times are read from /proc")

part = st.text(st.characters(exclude_characters="/", codec="utf-8"), max_size=40)
owners = st.builds(
    Owner, host=st.text(max_size=60), boot=part, pid=st.integers(min_value=1, max_value=2**22), started=part
)


@contextmanager
def a_child() -> Iterator[tuple[subprocess.Popen[str], Owner]]:
    """A process that says who it is and lives until a line arrives on its stdin."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        yield child, Owner.parse(child.stdout.readline().rstrip("\n"))


@given(owners)
def test_an_owner_reads_back_as_written(owner: Owner) -> None:
    assert Owner.parse(str(owner)) == owner


def test_a_host_name_may_hold_slashes() -> None:
    owner = Owner(host="rack/7/web", boot="b-1", pid=42, started="1234")
    assert str(owner) == "rack/7/web/b-1/42/1234"
    assert Owner.parse("rack/7/web/b-1/42/1234") == owner


def test_this_process_is_alive() -> None:
    assert this_process().pid == os.getpid()
    assert is_alive(this_process()) is True


def test_another_process_is_alive_until_it_has_finished() -> None:
    with a_child() as (child, owner):
        assert owner.pid == child.pid
        assert is_alive(owner) is True
        child.communicate("go\n")
        assert is_alive(owner) is False


@needs_proc
def test_a_zombie_is_not_alive() -> None:
    with a_child() as (child, owner):
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_alive(owner) is False


@needs_proc
def test_a_process_with_the_same_pid_and_another_start_time_is_not_the_owner() -> None:
    assert is_alive(replace(this_process(), started="1")) is False


def test_a_process_of_another_boot_is_not_alive() -> None:
    assert is_alive(replace(this_process(), boot="another-boot")) is False


def test_of_another_host_nothing_is_known() -> None:
    assert is_alive(replace(this_process(), host="another-host")) is None
