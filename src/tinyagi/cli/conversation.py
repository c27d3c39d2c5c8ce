"""Follows one conversation to its end, from before its first message is sent."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from tinyagi.api.messages import SendMessage
from tinyagi.api.traces import Span
from tinyagi.client.client import Client
from tinyagi.client.errors import NotFoundError
from tinyagi.client.stream import StreamEvent
from tinyagi.domain.ids import AgentId
from tinyagi.domain.tags import render_for_people

PATIENCE: Final = timedelta(minutes=1)
"""How long the daemon may be away, for a restart, while somebody waits."""

ENDS: Final = ("chain_step_done", "message_dead", "message_stopped", "message_deleted")
TYPES: Final = (
    *ENDS,
    "message_received",
    "chain_step_start",
    "agent_progress",
    "message_failed",
    "loop_stopped",
    "lane_held",
)


@dataclass(frozen=True, slots=True)
class Answer:
    agent: str
    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class End:
    """A message that died."""

    agent: str
    message_id: str
    reason: str


@dataclass(slots=True)
class Conversation:
    """What is known of it so far."""

    id: str = ""
    message_ids: tuple[str, ...] = ()
    status: str = "open"
    answers: list[Answer] = field(default_factory=list)
    ends: list[End] = field(default_factory=list)

    def as_object(self) -> dict[str, object]:
        """For a program, with the names that the API gives these things."""
        answers = [{"agent": one.agent, "messageId": one.message_id, "text": one.text} for one in self.answers]
        dead = [{"agent": one.agent, "messageId": one.message_id, "reason": one.reason} for one in self.ends]
        ids = list(self.message_ids)
        return {"conversationId": self.id, "messageIds": ids, "status": self.status, "answers": answers, "dead": dead}


class Audience(Protocol):
    """Whoever watches."""

    def begins(self, agent: str) -> None: ...

    def says(self, agent: str, text: str) -> None:
        """A piece of text while the agent is at work."""

    def answers(self, answer: Answer) -> None: ...

    def stumbles(self, agent: str, reason: str) -> None:
        """A run failed and is tried again, or a brake stopped what an agent wanted."""


async def converse(
    client: Client, letter: SendMessage, conversation: Conversation, audience: Audience, seconds: float | None
) -> None:
    """Send the message and fill in the conversation until nothing of it is left to do; raise TimeoutError."""
    async with asyncio.timeout(seconds), aclosing(client.events(types=TYPES, patience=PATIENCE)) as events:
        # The stream is there before the message is: nothing of it can be missed.
        await anext(events)
        sent = await client.send(letter)
        conversation.id = sent.conversation_id
        conversation.message_ids = sent.message_ids or (sent.message_id,)
        following = _Following(client, conversation, audience)
        async for event in events:
            if await following.take(event):
                return


class _Following:
    def __init__(self, client: Client, conversation: Conversation, audience: Audience) -> None:
        self._client = client
        self._conversation = conversation
        self._audience = audience
        self._open = set(conversation.message_ids)
        self._ended: set[str] = set()
        self._has_missed = False
        self._agents: set[str] = set()

    async def take(self, event: StreamEvent) -> bool:
        """True when the conversation is over."""
        if event.type == "reset":
            # Something was missed: from now on every end is a reason to look.
            self._open.clear()
            self._has_missed = True
            return await self._is_over()
        if event.type == "lane_held":
            # A lane is held for all that wait in it.
            if event.agent in self._agents:
                self._audience.stumbles(event.agent, event.text("reason"))
            return False
        ids = _ids(event)
        if event.conversation_id != self._conversation.id and not ids & set(self._conversation.message_ids):
            return False
        await self._tell(event)
        if event.type == "message_received":
            self._open |= ids
            self._agents.add(event.text("agent"))
        elif event.type in ENDS:
            self._open -= ids
            self._ended |= ids
            return not self._open and await self._is_over()
        return False

    async def _tell(self, event: StreamEvent) -> None:
        agent = event.agent or ""
        match event.type:
            case "chain_step_start":
                self._audience.begins(agent)
            case "agent_progress":
                self._audience.says(agent, event.text("text"))
            case "chain_step_done":
                answer = Answer(
                    agent, event.message_id or "", render_for_people(await self._text(event), AgentId(agent))
                )
                self._conversation.answers.append(answer)
                self._audience.answers(answer)
            case "message_dead" | "message_stopped":
                self._conversation.ends.append(End(agent, event.message_id or "", event.text("reason")))
            case "message_failed" | "loop_stopped":
                self._audience.stumbles(agent, event.text("reason"))

    async def _text(self, event: StreamEvent) -> str:
        """The whole answer: the stream cuts a long one."""
        shown = event.text("responseText")
        if event.data.get("responseLength") == len(shown) or event.conversation_id is None:
            return shown
        trace = await self._client.conversations.trace(event.conversation_id)
        found = _find(trace.spans, event.message_id or "")
        return shown if found is None or found.answer is None else found.answer

    async def _is_over(self) -> bool:
        """The store knows what there is, also when events of it are still on their way; those are waited for."""
        try:
            trace = await self._client.conversations.trace(self._conversation.id)
        except NotFoundError:
            self._conversation.status = "done"
            return True
        self._conversation.status = trace.status
        if trace.status == "open":
            return False
        if not self._has_missed:
            self._open = set(_names(trace.spans)) - self._ended
        return not self._open


def _ids(event: StreamEvent) -> set[str]:
    """The messages it is about: those of one run end together."""
    listed = event.data.get("messageIds")
    ids = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    return ids if event.message_id is None else ids | {event.message_id}


def _find(spans: tuple[Span, ...], message_id: str) -> Span | None:
    for span in spans:
        found = span if span.message_id == message_id else _find(span.children, message_id)
        if found is not None:
            return found
    return None


def _names(spans: tuple[Span, ...]) -> Iterator[str]:
    for span in spans:
        yield span.message_id
        yield from _names(span.children)
