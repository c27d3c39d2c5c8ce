"""Claims of earlier processes, with real processes: a restart by exec, and a reused pid."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.contract.conftest import CODER
from tinyagi.domain.messages import NewMessage
from tinyagi.store.store import Store
from tinyagi.system import processes
from tinyagi.system.processes import ProcessIdentity, this_process

RESTARTED = """
import asyncio, os, sys
from pathlib import Path
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import NewMessage
from tinyagi.store.store import Store

async def claim(path):
    store = await Store.open(path)
    await store.queue.enqueue(NewMessage("go", AgentId("coder")))
    assert await store.queue.claim(AgentId("coder")) is not None
    assert await store.queue.recover() == 0
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[2], str(path), sys.argv[2], "again"])

async def recover(path):
    async with await Store.open(path) as store:
        print(os.getpid(), await store.queue.recover())

asyncio.run((recover if "again" in sys.argv else claim)(Path(sys.argv[1])))
"""


@contextmanager
def an_unrelated_process() -> Iterator[subprocess.Popen[bytes]]:
    """A live process without the store."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.communicate(b"go\n")


def test_a_claim_from_before_an_exec_is_recovered_after_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RESTARTED, str(tmp_path / "tinyagi.db"), RESTARTED]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        output, _ = process.communicate()

    assert output.split() == [str(process.pid), "1"]


@pytest.mark.parametrize("old_format", [False, True], ids=["new", "old"])
async def test_without_proc_a_reused_pid_does_not_keep_a_claim_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, old_format: bool
) -> None:
    monkeypatch.setattr(processes, "_BOOT_ID", tmp_path / "absent")
    monkeypatch.setattr(psutil, "LINUX", False)
    path = tmp_path / "tinyagi.db"
    now = 1_800_000_000_000
    with an_unrelated_process() as stranger:
        before = psutil.Process(stranger.pid).create_time() - 60
        gone = replace(this_process(), pid=stranger.pid, started=before, nonce="gone")
        owner = ProcessIdentity(gone.host, "unknown", gone.pid, None) if old_format else gone
        async with await Store.open(path, owner=owner, clock=lambda: now) as holder:
            await holder.queue.enqueue(NewMessage("go", CODER))
            assert await holder.queue.claim(CODER) is not None
        async with await Store.open(path, clock=lambda: now) as other:
            at_once = await other.queue.recover()
        async with await Store.open(path, clock=lambda: now + 3_600_000) as other:
            later = await other.queue.recover()

    # An older version wrote no start time here: its claim is kept until its lease is over.
    assert (at_once, later) == ((0, 1) if old_format else (1, 0))
