"""Who may write from a chat."""

from typing import Annotated

from pydantic import Field

from tinyagi.api.base import Instant, Model, Ok

Code = Annotated[str, Field(pattern=r"^[A-Za-z0-9]{1,16}$")]
"""As the person was told it; small letters will do."""


class PendingPairing(Model):
    """Somebody unknown wrote, and was told this code."""

    code: str
    channel: str
    sender_id: str
    sender: str
    created_at: Instant
    expires_at: Instant


class ApprovedPairing(Model):
    channel: str
    sender_id: str
    sender: str
    approved_at: Instant
    approved_code: str | None = None


class Pairings(Model):
    """Both oldest first."""

    pending: tuple[PendingPairing, ...]
    approved: tuple[ApprovedPairing, ...]


class Approve(Model):
    code: Code


class PairingApproved(Ok):
    entry: ApprovedPairing
