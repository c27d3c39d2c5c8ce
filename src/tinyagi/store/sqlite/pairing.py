"""Pairing on SQLite."""

from collections.abc import Callable, Sequence

from tinyagi.domain.pairing import PairedSender, PairingRequest
from tinyagi.store.sqlite.operations.pairing import AskRequest, approve, ask, reject, take_over, unpair
from tinyagi.store.sqlite.readers import Readers
from tinyagi.store.sqlite.writer import Writer


class SqlitePairing:
    def __init__(self, writer: Writer, readers: Readers, clock: Callable[[], int]) -> None:
        self._writer = writer
        self._readers = readers
        self._clock = clock

    async def is_approved(self, channel: str, sender_id: str) -> bool:
        return await self._readers.row("paired_sender", (channel, sender_id)) is not None

    async def ask(self, channel: str, sender_id: str, sender: str) -> tuple[PairingRequest, bool] | None:
        return await self._writer.write(ask, AskRequest(channel, sender_id, sender))

    async def pending(self) -> tuple[PairingRequest, ...]:
        return tuple(PairingRequest(*row) for row in await self._readers.rows("open_requests", (self._clock(),)))

    async def approved(self) -> tuple[PairedSender, ...]:
        return tuple(PairedSender(*row) for row in await self._readers.rows("paired_senders"))

    async def approve(self, code: str) -> PairedSender:
        return await self._writer.write(approve, code)

    async def reject(self, code: str) -> None:
        await self._writer.write(reject, code)

    async def unpair(self, channel: str, sender_id: str) -> None:
        await self._writer.write(unpair, (channel, sender_id))

    async def take_over(self, people: Sequence[PairedSender]) -> int:
        return await self._writer.write(take_over, people)
