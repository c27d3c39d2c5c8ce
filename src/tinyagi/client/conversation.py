"""Sends a message and follows its conversation on the event stream to the end."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tinyagi.api.conversations import Span
from tinyagi.api.messages import SendMessage
from tinyagi.client.errors import NotFoundError
from tinyagi.client.event_stream import StreamEvent
from tinyagi.client.holds import PAUSED, Hold
from tinyagi.domain.ids import AgentId
from tinyagi.domain.instants import clock_time
from tinyagi.domain.messages import ROOM_CHANNEL
from tinyagi.domain.responses import PREVIEW_END, paths_in
from tinyagi.domain.retry import FailureKind
from tinyagi.domain.tags import render_for_people

if TYPE_CHECKING:
    from tinyagi.client.client import AsyncClient

PATIENCE: Final = timedelta(minutes=1)
"""How long the daemon may be unreachable, as in a restart, before the wait fails."""

MAX_RESPONSES: Final = 1_000
ENDS: Final = ("chain_step_done", "message_dead", "message_stopped", "message_deleted")
TYPES: Final = (
    *ENDS,
    "response_ready",
    "message_received",
    "chain_step_start",
    "agent_progress",
    "message_failed",
    "loop_stopped",
    "budget_reached",
    "lane_held",
    "lane_paused",
    "lane_resumed",
)


@dataclass(frozen=True, slots=True)
class AgentAnswer:
    agent: str
    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class FailedMessage:
    """A message that died."""

    agent: str
    message_id: str
    reason: str


@dataclass(slots=True)
class ConversationResult:
    """The state of a conversation so far."""

    id: str = ""
    message_ids: tuple[str, ...] = ()
    warning: str | None = None
    status: str = "open"
    answers: list[AgentAnswer] = field(default_factory=list)
    ends: list[FailedMessage] = field(default_factory=list)
    holds: dict[str, Hold] = field(default_factory=dict)
    """Held or paused agents that this conversation waits for."""

    @property
    def text(self) -> str:
        """All answers, in order of arrival."""
        return "\n\n".join(one.text for one in self.answers)

    def as_object(self) -> dict[str, object]:
        """Return a JSON object with the names of the API."""
        answers = [{"agent": one.agent, "messageId": one.message_id, "text": one.text} for one in self.answers]
        dead = [{"agent": one.agent, "messageId": one.message_id, "reason": one.reason} for one in self.ends]
        held = [{"agent": one.agent, "until": one.until, "reason": one.reason} for one in self.holds.values()]
        return {
            "conversationId": self.id,
            "messageIds": list(self.message_ids),
            "status": self.status,
            "answers": answers,
            "dead": dead,
            "held": held,
        }


class Audience:
    """Gets the progress of a conversation. The methods do nothing; a subclass overrides what it shows."""

    def warns(self, sentence: str) -> None:
        """The message is stored, but perhaps not for the intended agent."""

    def begins(self, agent: str) -> None:
        """A run of the agent started."""

    def says(self, agent: str, text: str) -> None:
        """A piece of live output of the agent's run."""

    def answers(self, answer: AgentAnswer) -> None:
        """An agent answered."""

    def reports(self, agent: str, sentence: str) -> None:
        """A run failed and will be retried, a limit stopped a hand-off, or the agent is held or continues."""


async def converse(
    client: "AsyncClient",
    message: SendMessage,
    conversation: ConversationResult,
    audience: Audience,
    seconds: float | None,
) -> None:
    """Send the message and update the conversation until it is done; raise TimeoutError.

    It also returns, with the status `held`, when the rest waits for agents that only a person can resume.
    """
    async with asyncio.timeout(seconds), aclosing(client.events(types=TYPES, patience=PATIENCE)) as events:
        # Connect before sending, so that no event of the conversation is missed.
        await anext(events)
        sent = await client.send(message)
        conversation.id = sent.conversation_id
        conversation.warning = sent.warning
        conversation.message_ids = sent.message_ids or (sent.message_id,)
        if sent.warning is not None:
            audience.warns(sent.warning)
        follower = _Follower(client, conversation, audience)
        async for event in events:
            if await follower.handle(event):
                return


async def acknowledge_answers(client: "AsyncClient", conversation: ConversationResult, channel: str) -> None:
    """Mark the answers and notices of a conversation as delivered; call it after they were shown."""
    answered = {answer.message_id for answer in conversation.answers}
    newest = await client.responses.recent(limit=min(MAX_RESPONSES, 20 + 2 * (len(answered) + len(conversation.ends))))
    for one in newest:
        belongs = one.conversation_id == conversation.id or one.message_id in answered
        if belongs and one.channel == channel and one.status == "pending":
            await client.responses.ack(one.id)


class _Follower:
    """Applies events of the stream to a conversation."""

    def __init__(self, client: "AsyncClient", conversation: ConversationResult, audience: Audience) -> None:
        self._client = client
        self._conversation = conversation
        self._audience = audience
        self._open = dict.fromkeys(conversation.message_ids, "")
        """Messages that have not ended, each with its agent once it is known."""
        self._ended: set[str] = set()
        self._unanswered: set[str] = set()
        """Messages whose run is done and whose response has not arrived."""
        self._has_missed = False
        self._agents: set[str] = set()
        self._reported: set[tuple[str, str]] = set()

    async def handle(self, event: StreamEvent) -> bool:
        """Apply an event; return True when the conversation is over."""
        if event.type == "reset":
            # Events were missed: from now on check the trace after every end.
            self._open.clear()
            self._unanswered.clear()
            self._has_missed = True
            return await self._is_over()
        if event.type in {"lane_held", "lane_paused", "lane_resumed"}:
            # A hold of a lane concerns every conversation in it.
            return event.agent in self._agents and self._lane_changed(event.agent, event)
        ids = _ids(event)
        if event.conversation_id != self._conversation.id and not ids & set(self._conversation.message_ids):
            return False
        await self._report(event)
        if event.type == "message_received":
            agent = event.text("agent")
            self._open |= dict.fromkeys(ids - self._ended, agent)
            return await self._is_held_already(agent)
        if event.type in ENDS:
            for name in ids:
                self._open.pop(name, None)
            self._ended |= ids
        elif event.type != "response_ready":
            return False
        return self._is_stuck() or (not self._open and not self._unanswered and await self._is_over())

    async def _is_held_already(self, agent: str) -> bool:
        """Check the lane of an agent that joins: an earlier hold is no longer on the stream."""
        if agent in self._agents:
            return False
        self._agents.add(agent)
        lane = next((lane for lane in await self._client.queue.lanes() if lane.agent == agent), None)
        hold = None if lane is None or agent in self._conversation.holds else Hold.of_lane(lane)
        return hold is not None and self._hold(hold)

    def _lane_changed(self, agent: str, event: StreamEvent) -> bool:
        if event.type == "lane_paused":
            return self._hold(Hold(agent, PAUSED))
        until = event.data.get("holdUntil")
        if event.type == "lane_held" and isinstance(until, int) and until:
            return self._hold(Hold.by_queue(agent, event.text("reason"), until, event.text("cause")))
        if self._conversation.holds.pop(agent, None) is not None:
            self._audience.reports(agent, f"@{agent} continues: {event.text('reason') or 'it was resumed'}.")
        return False

    def _hold(self, hold: Hold) -> bool:
        """Report a hold once; return True when the conversation cannot continue."""
        self._conversation.holds[hold.agent] = hold
        if (hold.agent, hold.reason) not in self._reported:
            self._reported.add((hold.agent, hold.reason))
            self._audience.reports(hold.agent, hold.sentence)
        return self._is_stuck()

    def _is_stuck(self) -> bool:
        endless = {hold.agent for hold in self._conversation.holds.values() if hold.until is None}
        is_stuck = bool(self._open) and not self._unanswered and endless.issuperset(self._open.values())
        if is_stuck:
            self._conversation.status = "held"
        return is_stuck

    async def _report(self, event: StreamEvent) -> None:
        agent = event.agent or ""
        match event.type:
            case "chain_step_start":
                self._conversation.holds.pop(agent, None)
                self._audience.begins(agent)
            case "agent_progress":
                self._audience.says(agent, event.text("text"))
            case "chain_step_done" if event.text("channel") == ROOM_CHANNEL:
                # In a room the answer itself is posted; no response goes to a person.
                self._answered(event, render_for_people(await self._text(event), AgentId(agent)))
            case "chain_step_done":
                self._unanswered.add(event.message_id or "")
            case "response_ready" if event.message_id in self._unanswered:
                self._unanswered.discard(event.message_id or "")
                self._answered(event, await self._response(event))
            case "message_dead" | "message_stopped":
                self._conversation.ends.append(FailedMessage(agent, event.message_id or "", event.text("reason")))
            case "budget_reached":
                until = event.data.get("until")
                self._hold(Hold(agent, event.text("reason"), until if isinstance(until, int) else None))
            # When the provider is unavailable, the lane is held, and the hold is reported.
            case "message_failed" if event.text("kind") != FailureKind.UNAVAILABLE:
                self._audience.reports(agent, await self._failure(agent, event))
            case "loop_stopped":
                self._audience.reports(agent, f"@{agent}: {event.text('reason')}")

    async def _failure(self, agent: str, event: StreamEvent) -> str:
        """Describe why a run failed, and when the next one starts if the queue knows it."""
        failed = f"@{agent} failed: {event.text('reason').rstrip('.')}."
        waiting = await self._client.queue.waiting(agent=agent)
        message = next((one for one in waiting if one.message_id == event.message_id), None)
        if message is None:
            return failed
        # A timeout has fewer attempts than the queue reports.
        total = f" of {message.attempts}" if event.text("kind") == FailureKind.MESSAGE else ""
        now = time.time_ns() // 1_000_000
        at = "follows" if message.until is None else f"at {clock_time(message.until, now)}"
        return f"{failed} Attempt {message.attempt}{total} {at}."

    def _answered(self, event: StreamEvent, text: str) -> None:
        answer = AgentAnswer(event.agent or "", event.message_id or "", text)
        self._conversation.answers.append(answer)
        self._audience.answers(answer)

    async def _response(self, event: StreamEvent) -> str:
        """Return the response as plugins changed it, in full, without the signature: the caller shows the name."""
        logged = await self._client.event_log(after=(event.id or 1) - 1, limit=1)
        row = logged[0].payload.get("response") if logged and logged[0].id == event.id else None
        if not isinstance(row, dict):
            return event.text("responseText")
        text = str(row.get("message")).removesuffix(f"- [{event.agent}]").rstrip("\n")
        files = paths_in(str(row.get("files")))
        return await asyncio.to_thread(_full_text, text, files[-1]) if text.endswith(PREVIEW_END) and files else text

    async def _text(self, event: StreamEvent) -> str:
        """Return the whole answer: the stream cuts a long one."""
        text = event.text("responseText")
        if event.data.get("responseLength") == len(text) or event.conversation_id is None:
            return text
        trace = await self._client.conversations.trace(event.conversation_id)
        found = _find(trace.spans, event.message_id or "")
        return text if found is None or found.answer is None else found.answer

    async def _is_over(self) -> bool:
        """Check the trace: the store may be ahead of the stream, so messages whose end event is missing stay open."""
        try:
            trace = await self._client.conversations.trace(self._conversation.id)
        except NotFoundError:
            self._conversation.status = "done"
            return True
        self._conversation.status = trace.status
        if trace.status == "open":
            return False
        if not self._has_missed:
            self._open = {name: self._open.get(name, "") for name in _names(trace.spans) if name not in self._ended}
        return not self._open


def _full_text(preview: str, file: str) -> str:
    """Return the full text from the file if it is on this machine, else the preview with the path."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return f"{preview}\n{file}"


def _ids(event: StreamEvent) -> set[str]:
    """Return the messages of an event: messages of one run end together."""
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
