"""Who may write from a chat, over REST."""

from tinyagi.api.base import Ok
from tinyagi.api.pairing import ApprovedPairing, PairingApproved, Pairings
from tinyagi.client.transport import Transport, segment


class Pairing:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def all(self) -> Pairings:
        return await self._transport.get("/api/pairing", Pairings)

    async def approve(self, code: str) -> ApprovedPairing:
        return (await self._transport.post("/api/pairing/approve", PairingApproved, {"code": code})).entry

    async def reject(self, code: str) -> None:
        """Forget a code that nobody is to approve."""
        await self._transport.delete(f"/api/pairing/pending/{segment(code)}", Ok)

    async def unpair(self, channel: str, sender_id: str) -> None:
        await self._transport.delete(f"/api/pairing/{segment(channel)}/{segment(sender_id)}", Ok)
