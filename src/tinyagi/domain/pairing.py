"""Who may write from a chat: unknown people get a code, which the owner approves."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Without I, O, 0 and 1, which look alike."""
CODE_LENGTH: Final = 8
CODE_LIFE: Final = timedelta(hours=1)
MAX_PENDING: Final = 100


@dataclass(frozen=True, slots=True)
class PairingRequest:
    """Somebody unknown wrote, and was told this code."""

    code: str
    channel: str
    sender_id: str
    sender: str
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class PairedSender:
    channel: str
    sender_id: str
    sender: str
    approved_at: int
    approved_code: str | None
