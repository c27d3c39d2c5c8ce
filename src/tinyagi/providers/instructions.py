"""Hands an agent's instructions to a program as a file, where no argument may be that long or the program wants one."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.providers.base import RunFailed

LONGEST_ARGUMENT: Final = 120_000
"""Bytes of one argument or variable; Linux allows 128 KiB with the name and the end mark."""


def is_too_long(text: str) -> bool:
    return len(text) * 4 > LONGEST_ARGUMENT and len(text.encode()) > LONGEST_ARGUMENT


@contextmanager
def written(text: str, suffix: str) -> Iterator[Path]:
    """A file with this text that only this user can read, gone when the block ends."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="tinyagi-", ignore_cleanup_errors=True)
        path = Path(folder.name, f"instructions{suffix}")
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = f"The agent's instructions cannot be written to the folder for temporary files: {error}"
        raise RunFailed(Failure(FailureKind.UNAVAILABLE, reason)) from error
    with folder:
        yield path
