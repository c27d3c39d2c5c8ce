"""The process's limit on open files and connections."""

import resource
from typing import Final

ENOUGH: Final = 65_536
_MACOS: Final = 10_240
"""macOS refuses more, although it reports no hard limit."""


def file_limit() -> int | None:
    """The number of files that may be open, or None when there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def raise_file_limit(enough: int = ENOUGH) -> None:
    """Raise the soft limit as far as the hard one and `enough` allow; never lower it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    for wanted in (enough, _MACOS):
        raised = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if raised <= soft:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        except (ValueError, OSError):
            continue
        return
