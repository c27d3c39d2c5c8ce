"""One writer at a time on a lake, among threads and processes."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from tinyagi.pipeline.errors import LakeBusy
from tinyagi.system.files import make_folder


@contextlib.contextmanager
def writer_lock(folder: Path, purpose: str, group: str = "pipeline") -> Iterator[None]:
    """Hold the lake for writing, or raise LakeBusy at once and say who has it. The lock goes with its holder."""
    make_folder(folder, 0o700)
    path = folder / ".writer.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
            raise LakeBusy(f"The lake {folder} is being written by {holder}. Try again when that is done.") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"`{group} {purpose}`, process {os.getpid()}".encode(), 0)
        yield
    finally:
        os.close(descriptor)
