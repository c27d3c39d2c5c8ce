"""Schedules over REST."""

from collections.abc import Mapping

from tinyagi.api.base import Ok
from tinyagi.api.schedules import Schedule, ScheduleSaved
from tinyagi.client.transport import Transport, segment


class Schedules:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def all(self) -> list[Schedule]:
        return await self._transport.get("/api/schedules", list[Schedule])

    async def add(self, schedule: Mapping[str, object]) -> Schedule:
        """The fields of `tinyagi.api.schedules.NewSchedule`, as they go over the wire: the server checks dates."""
        return (await self._transport.post("/api/schedules", ScheduleSaved, schedule)).schedule

    async def change(self, schedule: str, changes: Mapping[str, object]) -> Schedule:
        """The fields of `tinyagi.api.schedules.ScheduleChanges`."""
        return (await self._transport.put(f"/api/schedules/{segment(schedule)}", ScheduleSaved, changes)).schedule

    async def delete(self, schedule: str) -> None:
        await self._transport.delete(f"/api/schedules/{segment(schedule)}", Ok)
