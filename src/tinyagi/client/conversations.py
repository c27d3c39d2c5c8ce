"""Conversations as they went, over REST."""

from tinyagi.api.traces import Conversation, Trace
from tinyagi.client.transport import Transport, segment


class Conversations:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def recent(self, *, limit: int | None = None) -> list[Conversation]:
        """Newest first."""
        return await self._transport.get("/api/conversations", list[Conversation], limit=limit)

    async def trace(self, conversation: str) -> Trace:
        """Its messages as a tree, with their runs."""
        return await self._transport.get(f"/api/traces/{segment(conversation)}", Trace)
