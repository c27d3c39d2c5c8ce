"""Models of channels: their state, and pairings with the people who may write to agents."""

from typing import Annotated

from pydantic import Field

from tinyagi.api.base import Instant, Model, Ok

Code = Annotated[str, Field(pattern=r"^[A-Za-z0-9]{1,16}$")]
"""The pairing code that the person got; case does not matter."""


class PendingPairing(Model):
    """A code sent to an unknown person who wrote; it waits for an approval."""

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
    """Pending codes and approved people, both oldest first."""

    pending: tuple[PendingPairing, ...]
    approved: tuple[ApprovedPairing, ...]


class Approve(Model):
    code: Code


class PairingApproved(Ok):
    entry: ApprovedPairing


class ChannelState(Ok):
    channel: str
    running: bool
