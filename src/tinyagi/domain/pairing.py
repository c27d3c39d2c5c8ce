"""Pairing: how an unknown sender on a chat channel becomes an approved one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PairingRequest:
    """A message from an unknown sender, who received this code."""

    code: str
    channel: str
    sender_id: str
    sender: str
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class PairedSender:
    """A sender that the owner approved."""

    channel: str
    sender_id: str
    sender: str
    approved_at: int
    approved_code: str | None
