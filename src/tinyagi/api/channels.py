"""Models of channels: their state, and pairings with the people who may write to agents."""

from typing import Annotated

from pydantic import Field

from tinyagi.api.base import KEY, Id, Instant, Model, Ok, PersonName, Storable

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


class CheckSender(Model):
    """A person who writes on a chat platform."""

    channel: Id
    sender_id: Annotated[Storable, Field(min_length=1, max_length=256, json_schema_extra=KEY)]
    sender: PersonName


class SenderChecked(Model):
    """Whether the person may write; a person who may not gets a code to show to the owner."""

    approved: bool
    code: Annotated[str | None, Field(description="Null for approved people, and when too many codes are pending.")]
    is_new: Annotated[bool, Field(description="True for the first message: the channel sends the code once.")]


class ChannelState(Ok):
    channel: str
    running: bool


class LinkCode(Model):
    """The code that links a phone with the channel."""

    code: Annotated[str | None, Field(description="The QR code's text; null unless the channel waits for a scan.")]


class RelayReport(Model):
    """What the process that serves a channel says about itself, every few seconds."""

    owner: Annotated[str, Field(min_length=1, max_length=128, description="Made by the process at its start.")]
    connected: bool
    account: Annotated[Storable, Field(max_length=256, description="The bot's name on the platform.")] = ""
    error: Annotated[Storable | None, Field(max_length=1_000, description="Why it is not connected.")] = None


class RelayAccepted(Ok):
    """The process may deliver the channel's responses until the lease ends; each report renews it."""

    lease_seconds: float
