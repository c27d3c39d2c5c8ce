"""Pairing: who may write from a chat. Unknown people get a code, which the owner approves."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import astuple
from datetime import timedelta
from typing import Any, Final

from tinyagi.domain.errors import NotFound
from tinyagi.domain.instants import millis
from tinyagi.domain.pairing import PairedSender, PairingRequest
from tinyagi.domain.texts import check_key
from tinyagi.store.readers import Readers
from tinyagi.store.transaction import Transaction
from tinyagi.store.writer import Writer

ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Without I, O, 0 and 1, which look alike."""
CODE_LENGTH: Final = 8
CODE_LIFE: Final = timedelta(hours=1)
MAX_PENDING: Final = 100


class PairingStore:
    """Who may write from a chat."""

    def __init__(self, writer: Writer, readers: Readers, clock: Callable[[], int]) -> None:
        self._writer = writer
        self._readers = readers
        self._clock = clock

    async def is_approved(self, channel: str, sender_id: str, sender: str) -> bool:
        """True when this person may write; keeps their current name."""
        row = await self._readers.row("paired_sender", (channel, sender_id))
        if row is not None and row[0] != sender:
            await self._writer.run(rename, channel=channel, sender_id=sender_id, sender=sender)
        return row is not None

    async def ask(self, channel: str, sender_id: str, sender: str) -> tuple[PairingRequest, bool] | None:
        """The person's code, and whether it is new (then it has to be sent); None when too many requests wait.

        A person who is already approved gets a code as well; approving it only updates the name.
        """
        check_key("senderId", sender_id)
        return await self._writer.run(ask, channel=channel, sender_id=sender_id, sender=sender)

    async def pending(self) -> tuple[PairingRequest, ...]:
        """Codes that have not expired, oldest first."""
        return tuple(PairingRequest(*row) for row in await self._readers.rows("open_requests", (self._clock(),)))

    async def approved(self) -> tuple[PairedSender, ...]:
        """Oldest first."""
        return tuple(PairedSender(*row) for row in await self._readers.rows("paired_senders"))

    async def approve(self, code: str) -> PairedSender:
        """Raise NotFound when the code is unknown or has expired. Case does not matter."""
        return await self._writer.run(approve, code)

    async def reject(self, code: str) -> None:
        """Raise NotFound when the code is unknown or has expired."""
        await self._writer.run(_take, code)

    async def unpair(self, channel: str, sender_id: str) -> None:
        """Raise NotFound when this person is not approved."""
        await self._writer.run(unpair, channel=channel, sender_id=sender_id)

    async def import_people(self, people: Sequence[PairedSender]) -> int:
        """Import people approved elsewhere and return how many are new; approved people stay unchanged."""
        return await self._writer.run(import_people, people)


def ask(tx: Transaction, *, channel: str, sender_id: str, sender: str) -> tuple[PairingRequest, bool] | None:
    tx.connection.execute(tx.sql["forget_expired_requests"], (tx.now,))
    row = tx.connection.execute(tx.sql["request_of_sender"], (channel, sender_id)).fetchone()
    if row is not None:
        return PairingRequest(*row), False
    if tx.connection.execute(tx.sql["count_requests"]).get >= MAX_PENDING:
        return None
    # From the system's secure randomness, not the store's dice: a guessed code gives access to the agents.
    code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
    new = (code, channel, sender_id, sender, tx.now, tx.now + millis(CODE_LIFE))
    tx.connection.execute(tx.sql["insert_request"], new)
    return PairingRequest(*new), True


def rename(tx: Transaction, *, channel: str, sender_id: str, sender: str) -> None:
    tx.change("rename_sender", (channel, sender_id, sender))


def approve(tx: Transaction, code: str) -> PairedSender:
    request = _take(tx, code)
    person = (request.channel, request.sender_id, request.sender, tx.now, request.code)
    rows: list[Any] = tx.connection.execute(tx.sql["pair_sender"], person).fetchall()
    return PairedSender(*rows[0])


def unpair(tx: Transaction, *, channel: str, sender_id: str) -> None:
    if not tx.change("unpair_sender", (channel, sender_id)):
        raise NotFound(f"{sender_id} is not paired on {channel}. `tinyagi pairing approved` lists those who are.")


def import_people(tx: Transaction, people: Sequence[PairedSender]) -> int:
    """Returns the number of new people."""
    return sum(tx.change("take_over_sender", astuple(person)) for person in people)


def _take(tx: Transaction, code: str) -> PairingRequest:
    """Remove an open request and return it."""
    rows: list[Any] = tx.connection.execute(tx.sql["take_request"], (code.strip().upper(), tx.now)).fetchall()
    if not rows:
        raise NotFound(f"The code {code} is unknown or has expired. `tinyagi pairing pending` lists the open ones.")
    return PairingRequest(*rows[0])
