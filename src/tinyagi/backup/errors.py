"""What can go wrong with a backup: each message names the file and the remedy."""

from tinyagi.domain.errors import TinyAGIError


class BackupError(TinyAGIError):
    """The backup could not be made or restored; what was there before is unchanged."""


class ArchiveRefused(BackupError):
    """The file is no backup, is damaged, or is not safe to unpack."""
