"""The daemon and its channels, over REST."""

from typing import Literal

from tinyagi.api.services import Applied, ChannelState, Restarting
from tinyagi.client.transport import Transport, segment

ChannelAction = Literal["start", "stop", "restart"]


class Services:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def restart(self) -> Restarting:
        """Let the daemon finish what runs and come back."""
        return await self._transport.post("/api/services/restart", Restarting)

    async def apply(self) -> Applied:
        """Restart only when settings wait for it."""
        return await self._transport.post("/api/services/apply", Applied)

    async def channel(self, channel: str, action: ChannelAction) -> ChannelState:
        return await self._transport.post(f"/api/services/channel/{segment(channel)}/{action}", ChannelState)
