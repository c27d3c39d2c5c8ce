"""Agents over REST: their settings, the texts in their workspaces, and their history."""

from tinyagi.api.agents import (
    AgentDeleted,
    AgentFields,
    AgentSaved,
    Heartbeat,
    HeartbeatSaved,
    Memory,
    NewHeartbeat,
    NewSystemPrompt,
    Skill,
    SystemPrompt,
    SystemPromptSaved,
)
from tinyagi.api.base import Ok
from tinyagi.api.history import HistoryLine
from tinyagi.api.recall import Recalled
from tinyagi.client.transport import Transport, segment


class Agents:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def all(self) -> dict[str, AgentFields]:
        return await self._transport.get("/api/agents", dict[str, AgentFields])

    async def put(self, agent: str, fields: AgentFields) -> AgentSaved:
        """Add an agent, or change what the fields name of one that is there."""
        return await self._transport.put(_path(agent), AgentSaved, fields)

    async def delete(self, agent: str, *, messages: str | None = None) -> AgentDeleted:
        """`messages` says what becomes of those that wait for it: `dead`, or `move:<agent>`."""
        return await self._transport.delete(_path(agent), AgentDeleted, messages=messages)

    async def reset(self, agent: str) -> None:
        """Let the agent start afresh: its stored sessions are forgotten."""
        await self._transport.post(_path(agent, "reset"), Ok)

    async def messages(
        self, agent: str, *, limit: int | None = None, since_id: int | None = None, before_id: int | None = None
    ) -> list[HistoryLine]:
        """The agent's history, newest first."""
        return await self._transport.get(
            _path(agent, "messages"), list[HistoryLine], limit=limit, since_id=since_id, before_id=before_id
        )

    async def messages_of_all(
        self, *, limit: int | None = None, since_id: int | None = None, before_id: int | None = None
    ) -> list[HistoryLine]:
        return await self._transport.get(
            "/api/agent-messages", list[HistoryLine], limit=limit, since_id=since_id, before_id=before_id
        )

    async def recall(self, agent: str, words: str, *, limit: int | None = None) -> Recalled:
        """What the agent was asked or has answered, by the words in it, best first, as far as it is archived."""
        return await self._transport.get("/api/recall", Recalled, agent=agent, q=words, limit=limit)

    async def skills(self, agent: str) -> list[Skill]:
        return await self._transport.get(_path(agent, "skills"), list[Skill])

    async def memory(self, agent: str) -> Memory:
        return await self._transport.get(_path(agent, "memory"), Memory)

    async def system_prompt(self, agent: str) -> SystemPrompt:
        return await self._transport.get(_path(agent, "system-prompt"), SystemPrompt)

    async def put_system_prompt(self, agent: str, content: str) -> SystemPromptSaved:
        body = NewSystemPrompt(content=content)
        return await self._transport.put(_path(agent, "system-prompt"), SystemPromptSaved, body)

    async def heartbeat(self, agent: str) -> Heartbeat:
        return await self._transport.get(_path(agent, "heartbeat"), Heartbeat)

    async def put_heartbeat(self, agent: str, heartbeat: NewHeartbeat) -> HeartbeatSaved:
        return await self._transport.put(_path(agent, "heartbeat"), HeartbeatSaved, heartbeat)


def _path(agent: str, *steps: str) -> str:
    return "/".join(("/api/agents", segment(agent), *steps))
