"""One writer at a time, among threads and processes."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Final

from tinyagi.settings.errors import SettingsBusy

PATIENCE: Final = timedelta(seconds=10)
PAUSE: Final = timedelta(milliseconds=5)


@contextlib.contextmanager
def locked(file: Path, *, patience: timedelta = PATIENCE) -> Iterator[None]:
    """Hold the lock that belongs to a file; raise SettingsBusy when nobody lets go of it in time.

    The lock goes with its holder, however that ends. The lock file stays: to remove it would give the next two
    writers two different locks.
    """
    path = file.with_name(f".{file.name}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(descriptor, file, time.monotonic() + patience.total_seconds())
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, file: Path, deadline: float) -> None:
    while True:
        try:
            # flock and not lockf: it belongs to this opening of the file, so threads exclude each other as well.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise SettingsBusy(
                    f"Another process keeps {file} locked. Nothing was written; try again, or end that process."
                ) from None
            time.sleep(PAUSE.total_seconds())
        else:
            return
