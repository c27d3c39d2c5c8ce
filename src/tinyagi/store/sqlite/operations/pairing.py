"""Pairing: codes are made, approved and rejected. One that has expired is as if it had never been."""

import secrets
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from tinyagi.domain.durations import millis
from tinyagi.domain.errors import NotFound
from tinyagi.domain.pairing import ALPHABET, CODE_LENGTH, CODE_LIFE, MAX_PENDING, PairedSender, PairingRequest
from tinyagi.store.sqlite.transaction import Transaction


@dataclass(frozen=True, slots=True)
class AskRequest:
    channel: str
    sender_id: str
    sender: str


def ask(tx: Transaction, requests: Sequence[AskRequest]) -> list[tuple[PairingRequest, bool] | None]:
    tx.connection.execute(tx.sql["forget_expired_requests"], (tx.now,))
    return [_ask(tx, request) for request in requests]


def approve(tx: Transaction, codes: Sequence[str]) -> list[PairedSender]:
    approved = []
    for code in codes:
        request = _take(tx, code)
        person = (request.channel, request.sender_id, request.sender, tx.now, request.code)
        rows: list[Any] = tx.connection.execute(tx.sql["pair_sender"], person).fetchall()
        approved.append(PairedSender(*rows[0]))
    return approved


def reject(tx: Transaction, codes: Sequence[str]) -> list[None]:
    for code in codes:
        _take(tx, code)
    return [None] * len(codes)


def unpair(tx: Transaction, people: Sequence[tuple[str, str]]) -> list[None]:
    for channel, sender_id in people:
        if not tx.change("unpair_sender", (channel, sender_id)):
            raise NotFound(f"{sender_id} is not paired on {channel}. `tinyagi pairing approved` lists who is.")
    return [None] * len(people)


def take_over(tx: Transaction, requests: Sequence[Sequence[PairedSender]]) -> list[int]:
    """Returns for each how many are new."""
    return [sum(tx.change("take_over_sender", astuple(person)) for person in people) for people in requests]


def _ask(tx: Transaction, request: AskRequest) -> tuple[PairingRequest, bool] | None:
    row = tx.connection.execute(tx.sql["request_of_sender"], (request.channel, request.sender_id)).fetchone()
    if row is not None:
        return PairingRequest(*row), False
    if tx.connection.execute(tx.sql["count_requests"]).get >= MAX_PENDING:
        return None
    # From the system's own randomness, not from the store's dice: who guesses a code may write to agents.
    code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
    person = (request.channel, request.sender_id, request.sender)
    new = (code, *person, tx.now, tx.now + millis(CODE_LIFE))
    tx.connection.execute(tx.sql["insert_request"], new)
    return PairingRequest(*new), True


def _take(tx: Transaction, code: str) -> PairingRequest:
    """Remove an open request and return it."""
    rows: list[Any] = tx.connection.execute(tx.sql["take_request"], (code.strip().upper(), tx.now)).fetchall()
    if not rows:
        raise NotFound(f"The code {code} is unknown or has expired. `tinyagi pairing pending` lists the open ones.")
    return PairingRequest(*rows[0])
