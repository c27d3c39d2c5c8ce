"""What can go wrong around the daemon's process."""

from tinyagi.domain.errors import TinyAGIError


class DaemonError(TinyAGIError):
    """The daemon cannot be started, stopped or found; the sentence says what to do."""


class AlreadyRunning(DaemonError):
    """Another process works on this home."""
