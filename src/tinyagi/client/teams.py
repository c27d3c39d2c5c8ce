"""Teams over REST, with their chat rooms."""

from tinyagi.api.base import Ok
from tinyagi.api.rooms import ChatFile, LinePosted, PostLine, RoomLine
from tinyagi.api.teams import TeamFields, TeamSaved
from tinyagi.client.transport import Transport, segment


class Teams:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def all(self) -> dict[str, TeamFields]:
        return await self._transport.get("/api/teams", dict[str, TeamFields])

    async def put(self, team: str, fields: TeamFields) -> TeamSaved:
        """Add a team, or change what the fields name of one that is there."""
        return await self._transport.put(f"/api/teams/{segment(team)}", TeamSaved, fields)

    async def delete(self, team: str) -> None:
        await self._transport.delete(f"/api/teams/{segment(team)}", Ok)

    async def room(
        self, team: str, *, limit: int | None = None, since: int | None = None, before: int | None = None
    ) -> list[RoomLine]:
        """Lines of its chat room, newest first; `since` and `before` are ids of lines."""
        return await self._transport.get(
            f"/api/chatroom/{segment(team)}", list[RoomLine], limit=limit, since=since, before=before
        )

    async def post(self, team: str, line: PostLine) -> LinePosted:
        """Say something in its chat room."""
        return await self._transport.post(f"/api/chatroom/{segment(team)}", LinePosted, line)

    async def chats(self) -> list[ChatFile]:
        """The files that hold the conversations of all teams."""
        return await self._transport.get("/api/chats", list[ChatFile])
