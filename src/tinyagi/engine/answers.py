"""Turns an agent's text into hand-offs, room posts and a response with files. Also sends proactive messages."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_hex

from tinyagi.domain.errors import InvalidInput
from tinyagi.domain.events import TeamChainStart
from tinyagi.domain.ids import AgentId, ConversationId, MessageId, TeamId
from tinyagi.domain.messages import Message
from tinyagi.domain.responses import NewResponse, Response
from tinyagi.domain.routing import Roster, Team, mentions, prompt_from_room, prompt_from_teammate, room_posts_of_answer
from tinyagi.domain.runs import Handoff, RoomPost
from tinyagi.domain.tags import render_for_people
from tinyagi.domain.texts import check_key
from tinyagi.engine.attachments import Attached, attach, checked_file, names_files, preview, write_long_answer
from tinyagi.plugins.plugin import Plugins
from tinyagi.plugins.specs import HookContext
from tinyagi.settings.effective import EffectiveSettings, EffectiveSettingsCache
from tinyagi.settings.home import Home
from tinyagi.settings.model import ResponsesSettings
from tinyagi.store.responses import ResponseStore


def handoffs_of(text: str, message: Message, roster: Roster) -> tuple[Handoff, ...]:
    """One hand-off per mentioned teammate; the message's team comes first, then the agent's other teams."""
    found: dict[AgentId, Handoff] = {}
    for team in _teams_of(message.agent, message.team, roster):
        for mention in mentions(text, message.agent, team):
            handoff = Handoff(mention.to, prompt_from_teammate(message.agent, mention.text), team.id)
            found.setdefault(mention.to, handoff)
    return tuple(found.values())


def _teams_of(agent: AgentId, first: TeamId | None, roster: Roster) -> list[Team]:
    teams = [team for team in roster.teams.values() if agent in team.agents]
    return sorted(teams, key=lambda team: team.id != first)


def room_posts_of(text: str, agent: AgentId, roster: Roster, passive: frozenset[TeamId]) -> tuple[RoomPost, ...]:
    """The agent's posts to chat rooms, with the prompt that each other member reads."""
    return tuple(
        RoomPost(
            team=post.team,
            message=post.text,
            members=roster.teams[post.team].teammates_of(agent),
            prompt=prompt_from_room(post.team, agent, post.text),
            wakes=post.team not in passive,
        )
        for post in room_posts_of_answer(text, agent, roster)
    )


def room_post(text: str, team: Team, sender: str, rules: EffectiveSettings) -> RoomPost:
    wakes = team.id not in rules.passive_rooms
    return RoomPost(team.id, text, team.agents, prompt_from_room(team.id, sender, text), wakes)


def team_chain_of(handoffs: tuple[Handoff, ...], message: Message, roster: Roster) -> TeamChainStart | None:
    """The team chain that the first hand-off starts; None when the conversation belongs to a team already."""
    if not handoffs or message.conversation_team is not None or handoffs[0].team is None:
        return None
    return chain_start(roster.teams[handoffs[0].team])


def chain_start(team: Team) -> TeamChainStart:
    return TeamChainStart(team.id, team.agents, team.leader)


@dataclass(frozen=True, slots=True)
class FormattedResponse:
    """The text, files and metadata that the person gets."""

    text: str
    files: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResponseFormatter:
    """Formats every text that goes to people."""

    files: Path
    """The files folder: attachments may come from it, and copies and long answers go into it."""
    settings: ResponsesSettings
    plugins: Plugins

    async def format(self, text: str, *, folders: Sequence[Path], context: HookContext, name: str) -> FormattedResponse:
        """Format a text: render tags, split off files, apply plugins, shorten a long text, add the signature.

        Relative paths start in the first of the folders; `name` makes the file name of a long text unique.
        """
        attached = Attached(text)
        if names_files(text):
            attached = await asyncio.to_thread(attach, text, folders, self.files, self.settings.max_file_bytes)
        rendered = "\n".join([render_for_people(attached.text, context.agent), *attached.refused]).strip()
        transformed = await self.plugins.outgoing(rendered, context)
        response, files = transformed.text, attached.files
        if len(response) > self.settings.long_answer_characters:
            full = await asyncio.to_thread(write_long_answer, response, self.files, name)
            response, files = preview(response), (*files, str(full))
        if self.settings.suffix:
            response = f"{response}\n\n- [{context.agent}]" if response else f"- [{context.agent}]"
        return FormattedResponse(response, files, transformed.metadata)


def hook_context(message: Message) -> HookContext:
    return HookContext(
        agent=message.agent,
        channel=message.channel,
        sender=message.sender,
        sender_id=message.sender_id,
        message_id=message.message_id,
        conversation_id=message.conversation_id,
        team=message.team,
        from_agent=message.from_agent,
        attempt=message.attempt,
    )


class Outbox:
    """Sends proactive messages: those that answer no message."""

    def __init__(
        self, responses: ResponseStore, effective: EffectiveSettingsCache, home: Home, plugins: Plugins
    ) -> None:
        self._responses = responses
        self._effective = effective
        self._files = home.files
        self._plugins = plugins

    async def send(self, new: NewResponse) -> Response:
        """Store a proactive message for its channel to fetch; raise InvalidInput for a file that may not be sent."""
        if not new.message.strip() and not new.files:
            raise InvalidInput("A message needs a text or a file.")
        check_key("sender", new.sender)
        check_key("senderId", new.sender_id or "")
        rules = self._effective.current
        folders = self._folders(new.agent, rules)
        largest = rules.settings.responses.max_file_bytes
        attached = await asyncio.to_thread(self._checked, new.files, folders, largest) if new.files else ()
        if new.agent is None:
            # Without an agent there is no signature, and no workspace for file tags to refer to.
            return await self._responses.send(replace(new, files=attached))
        # Only answers are signed, and this message answers none.
        unsigned = rules.settings.responses.model_copy(update={"suffix": False})
        formatted = await ResponseFormatter(self._files, unsigned, self._plugins).format(
            new.message, folders=folders, context=_context(new, new.agent), name=f"{new.agent}_{token_hex(6)}"
        )
        files = tuple(dict.fromkeys((*attached, *formatted.files)))
        metadata = {**new.metadata, **formatted.metadata}
        return await self._responses.send(replace(new, message=formatted.text, files=files, metadata=metadata))

    def _checked(self, paths: Sequence[str], folders: Sequence[Path], largest: int) -> tuple[str, ...]:
        return tuple(checked_file(file, folders, self._files, largest) for file in paths)

    def _folders(self, agent: AgentId | None, rules: EffectiveSettings) -> list[Path]:
        if agent is None:
            return []
        if agent not in rules.roster.agents:
            raise InvalidInput(f"There is no agent {agent!r}.")
        return [rules.setup_of(agent).workspace]


def _context(new: NewResponse, agent: AgentId) -> HookContext:
    return HookContext(
        agent=agent,
        channel=new.channel,
        sender=new.sender,
        sender_id=new.sender_id,
        message_id=MessageId(""),
        conversation_id=ConversationId(""),
    )
