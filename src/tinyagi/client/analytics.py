"""Figures from the lake, over REST."""

from tinyagi.api.analytics import AnalyticsRows, AnalyticsTable
from tinyagi.client.transport import Transport, segment


class Analytics:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def tables(self) -> list[AnalyticsTable]:
        """Those that the pipeline has made."""
        return await self._transport.get("/api/analytics", list[AnalyticsTable])

    async def rows(
        self,
        table: str,
        *,
        since: str | int | None = None,
        until: str | int | None = None,
        agent: str | None = None,
        limit: int | None = None,
    ) -> AnalyticsRows:
        """Newest first; days are ISO dates or any of their instants in ms."""
        return await self._transport.get(
            f"/api/analytics/{segment(table)}", AnalyticsRows, since=since, until=until, agent=agent, limit=limit
        )
