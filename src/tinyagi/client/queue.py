"""The queue over REST: depths, lanes, what runs and what is dead."""

from tinyagi.api.base import Ok
from tinyagi.api.queue import DeadMessage, LaneStatus, QueueStatus, RetryDead, RunKilled, RunningMessage
from tinyagi.client.transport import Transport, segment


class Queue:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def status(self) -> QueueStatus:
        return await self._transport.get("/api/queue/status", QueueStatus)

    async def lanes(self) -> list[LaneStatus]:
        return await self._transport.get("/api/queue/agents", list[LaneStatus])

    async def processing(self) -> list[RunningMessage]:
        return await self._transport.get("/api/queue/processing", list[RunningMessage])

    async def kill(self, message: int) -> RunKilled:
        """End the run of a message; its messages are dead then."""
        return await self._transport.post(f"/api/queue/processing/{segment(message)}/kill", RunKilled)

    async def pause(self, agent: str) -> None:
        await self._transport.post(f"/api/queue/agents/{segment(agent)}/pause", Ok)

    async def resume(self, agent: str) -> None:
        """Let the lane go on: pause and hold are lifted."""
        await self._transport.post(f"/api/queue/agents/{segment(agent)}/resume", Ok)

    async def dead(self, *, agent: str | None = None, limit: int | None = None) -> list[DeadMessage]:
        return await self._transport.get("/api/queue/dead", list[DeadMessage], agent=agent, limit=limit)

    async def retry(self, message: int, text: str | None = None) -> None:
        """Send a dead message again, perhaps with another text."""
        body = RetryDead() if text is None else RetryDead(message=text)
        await self._transport.post(f"/api/queue/dead/{segment(message)}/retry", Ok, body)

    async def delete(self, message: int) -> None:
        await self._transport.delete(f"/api/queue/dead/{segment(message)}", Ok)
