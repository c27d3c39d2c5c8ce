"""Answers and notices on their way to people, over REST."""

from tinyagi.api.base import Ok
from tinyagi.api.responses import (
    DeliveryFailed,
    DeliveryNoted,
    PendingResponse,
    ResponseRow,
    ResponseSent,
    SendResponse,
)
from tinyagi.client.transport import Transport, segment


class Responses:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def recent(self, *, limit: int | None = None) -> list[ResponseRow]:
        """Newest first."""
        return await self._transport.get("/api/responses", list[ResponseRow], limit=limit)

    async def pending(self, channel: str, *, limit: int | None = None) -> list[PendingResponse]:
        """What the channel has to deliver, oldest first."""
        return await self._transport.get("/api/responses/pending", list[PendingResponse], channel=channel, limit=limit)

    async def send(self, response: SendResponse) -> ResponseSent:
        """Tell a person something that answers nothing."""
        return await self._transport.post("/api/responses", ResponseSent, response)

    async def ack(self, response: int) -> None:
        await self._transport.post(f"/api/responses/{segment(response)}/ack", Ok)

    async def fail(self, response: int, reason: str) -> DeliveryNoted:
        """Say that a delivery failed; it is tried again later, until it has failed too often."""
        body = DeliveryFailed(reason=reason)
        return await self._transport.post(f"/api/responses/{segment(response)}/fail", DeliveryNoted, body)
