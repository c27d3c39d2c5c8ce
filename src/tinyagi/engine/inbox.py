"""Messages from people: routed once, on arrival, and stored with the events of their routing."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

from tinyagi.domain.board import task_named_in
from tinyagi.domain.errors import InvalidInput, RefusedRequest
from tinyagi.domain.events import AgentRouted, Event
from tinyagi.domain.ids import AgentId, ConversationId, MessageId, TeamId
from tinyagi.domain.instants import millis
from tinyagi.domain.messages import RESERVED_CHANNELS, NewMessage
from tinyagi.domain.responses import ChatMessage
from tinyagi.domain.routing import Roster, Route, address_warning, fan_out, room_posts
from tinyagi.engine.answers import chain_start, room_post
from tinyagi.engine.attachments import RECEIVED, checked_file, discard_copies
from tinyagi.settings.effective import EffectiveSettings, EffectiveSettingsCache
from tinyagi.store.queue import MessageQueue


class Incoming(NamedTuple):
    """A person's message as a channel or a client hands it in."""

    message: str
    agent: str | None = None
    """The agent or team that gets the message; None when the text names the receiver."""
    channel: str = "api"
    sender: str = "API"
    sender_id: str | None = None
    message_id: str | None = None
    files: tuple[str, ...] = ()
    priority: int = 0
    delay: timedelta = timedelta()


class Submitted(NamedTuple):
    message_id: MessageId
    conversation_id: ConversationId
    message_ids: tuple[MessageId, ...]
    """One per target of a message that was fanned out."""
    warning: str | None = None
    """For the sender: the text begins with a name that is unknown."""


class Inbox:
    """Accepts messages from people. Agents hand work on inside the transaction that completes their run."""

    def __init__(self, queue: MessageQueue, effective: EffectiveSettingsCache, clock: Callable[[], int]) -> None:
        """`clock` must be the clock of the queue's store."""
        self._queue = queue
        self._clock = clock
        self._effective = effective

    async def submit(self, incoming: Incoming) -> Submitted:
        """Store a message durably, one part per agent it names; raise InvalidInput or DuplicateMessage."""
        if not incoming.message.strip() and not incoming.files:
            raise InvalidInput("A message needs a text or a file.")
        if incoming.channel in RESERVED_CHANNELS:
            raise InvalidInput(
                f"Channel {incoming.channel!r} is reserved for TinyAGI's own messages, whose answers go to no chat. "
                "Use another channel, such as api."
            )
        rules = self._effective.current
        routes = _routes(incoming, rules)
        if incoming.files:
            incoming = await asyncio.to_thread(_with_confined_files, incoming, routes, rules)
        try:
            return await self._store(incoming, routes, rules)
        except RefusedRequest:
            if incoming.files:
                await asyncio.to_thread(discard_copies, incoming.files, rules.home.files)
            raise

    async def _store(self, incoming: Incoming, routes: Sequence[Route], rules: EffectiveSettings) -> Submitted:
        names_agent = incoming.agent is None and incoming.message.startswith(("@", "#"))
        warning = address_warning(incoming.message, routes, rules.roster) if names_agent else None
        parts = [self._part(incoming, route, rules) for route in routes]
        posts = () if incoming.agent else room_posts(incoming.message, rules.roster)
        task = task_named_in(incoming.message)
        if task is not None and len(parts) == 1 and not posts:
            only = await self._queue.enqueue_for_task(parts[0], task)
            return Submitted(only.message_id, only.conversation_id, (only.message_id,), warning)
        stored = await self._queue.enqueue_parts(
            parts,
            posts=[room_post(post.text, rules.roster.teams[post.team], incoming.sender, rules) for post in posts],
        )
        root = stored[0]
        return Submitted(root.message_id, root.conversation_id, tuple([one.message_id for one in stored]), warning)

    def addressed(self, incoming: Incoming) -> NewMessage:
        """Return the message for the agent or team that it names, without storing it; raise InvalidInput."""
        rules = self._effective.current
        return self._part(incoming, route_to(incoming.agent or "", incoming.message, rules.roster), rules)

    async def post(self, team: TeamId, text: str, sender: str) -> ChatMessage:
        """Post a text to a team's chat room."""
        rules = self._effective.current
        room = rules.roster.teams.get(team)
        if room is None:
            raise InvalidInput(f"There is no team {team!r}.")
        if not text.strip():
            raise InvalidInput("A post to the chat room needs a text.")
        return await self._queue.post(room_post(text, room, sender, rules), sender=sender)

    def _part(self, incoming: Incoming, route: Route, rules: EffectiveSettings) -> NewMessage:
        delay = millis(incoming.delay)
        return NewMessage(
            message=route.text,
            agent=route.agent,
            channel=incoming.channel,
            sender=incoming.sender,
            sender_id=incoming.sender_id,
            message_id=None if incoming.message_id is None else MessageId(incoming.message_id),
            files=incoming.files,
            team=route.team,
            priority=incoming.priority,
            available_at=self._clock() + delay if delay > 0 else 0,
            facts=self._facts(route, rules),
        )

    def _facts(self, route: Route, rules: EffectiveSettings) -> tuple[Event, ...]:
        setup = rules.setup_of(route.agent)
        routed = AgentRouted(setup.name, setup.provider, setup.model, route.team)
        return (routed,) if route.team is None else (routed, chain_start(rules.roster.teams[route.team]))


def _with_confined_files(incoming: Incoming, routes: Sequence[Route], rules: EffectiveSettings) -> Incoming:
    """Accept only files in the home or in the agent's workspace: a sender must not make an agent read others."""
    files, largest = rules.home.files, rules.settings.responses.max_file_bytes
    folders = [files, *(rules.setup_of(route.agent).workspace for route in routes)]
    return incoming._replace(
        files=tuple(checked_file(file, folders, files, largest, RECEIVED) for file in incoming.files)
    )


def _routes(incoming: Incoming, rules: EffectiveSettings) -> tuple[Route, ...]:
    roster = rules.roster
    if incoming.agent is None:
        chat = f"{incoming.channel}:{incoming.sender_id or incoming.sender}"
        sticky = rules.settings.channels.defaults.get(chat)
        return fan_out(incoming.message, roster, None if sticky is None else AgentId(sticky))
    return (route_to(incoming.agent, incoming.message, roster),)


def route_to(name: str, text: str, roster: Roster) -> Route:
    """The route to a named agent or team; raise InvalidInput when there is none with this name."""
    agent, team = AgentId(name), TeamId(name)
    if agent in roster.agents:
        return Route(agent, None, text)
    if team in roster.teams:
        return Route(roster.teams[team].leader, team, text)
    known = ", ".join([*roster.agents, *roster.teams])
    raise InvalidInput(f"There is no agent or team {name!r}. There are: {known}.")
