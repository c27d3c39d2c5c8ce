"""Signatures as in Standard Webhooks: HMAC-SHA256 over id, timestamp and body, with one or several secrets."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Final

PREFIX: Final = "whsec_"
SHORTEST: Final = 24
"""Bytes of a secret, at least; the specification says the same."""
REPLAY_SECONDS: Final = 300
"""How far a timestamp may be away from our clock."""


class Refused(Exception):
    """A request is not signed as agreed; the message says what is wrong."""


def secrets_of(text: str) -> tuple[bytes, ...]:
    """The secrets of a setting, separated by spaces; raise ValueError with the remedy."""
    secrets = tuple(_secret(word) for word in text.split())
    if not secrets:
        raise ValueError("There is no secret. Set secret to whsec_ and at least 24 random bytes in base64.")
    return secrets


def _secret(word: str) -> bytes:
    try:
        secret = base64.b64decode(word.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not word.startswith(PREFIX) or len(secret) < SHORTEST:
        raise ValueError(
            f"A secret of the webhook is not usable: it is {PREFIX} and at least {SHORTEST} random bytes in base64. "
            "Make one with: openssl rand -base64 32"
        )
    return secret


def signatures(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: one signature for each secret, so that secrets can be rotated."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join(f"v1,{_signature(secret, signed)}" for secret in secrets)


def _signature(secret: bytes, signed: bytes) -> str:
    return base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()


def signed_headers(secrets: Sequence[bytes], message_id: str, now: float, body: bytes) -> dict[str, str]:
    timestamp = int(now)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signatures(secrets, message_id, timestamp, body),
    }


def checked_id(secrets: Sequence[bytes], headers: Mapping[str, str], body: bytes, now: float) -> str:
    """The id of a request whose signature and time are right; raise Refused."""
    message_id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    given = headers.get("webhook-signature", "")
    if not (message_id and timestamp and given):
        raise Refused("The headers webhook-id, webhook-timestamp and webhook-signature are needed.")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 13):
        raise Refused("webhook-timestamp is not a number of seconds since 1970.")
    if abs(int(timestamp) - now) > REPLAY_SECONDS:
        raise Refused("webhook-timestamp is more than five minutes away. Check the clocks of both machines.")
    signed = f"{message_id}.{timestamp}.".encode("latin-1") + body
    expected = [_signature(secret, signed) for secret in secrets]
    offered = [value for version, _, value in (word.partition(",") for word in given.split()) if version == "v1"]
    # All are compared, so that the time tells nothing about which one is close.
    matches = [hmac.compare_digest(one.encode(), other.encode("latin-1")) for one in expected for other in offered]
    if not any(matches):
        raise Refused("The signature is wrong. Sign id.timestamp.body with the secret of this channel.")
    return message_id
