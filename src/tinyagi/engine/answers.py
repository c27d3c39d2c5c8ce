"""From what an agent said to what its run leaves: hand-offs, room posts, and the text and files for the person."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tinyagi.domain.events import TeamChainStart
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.messages import Handoff, Message, RoomPost
from tinyagi.domain.routing import mentions, prompt_from_room, prompt_from_teammate, room_posts_of_answer
from tinyagi.domain.tags import render_for_people
from tinyagi.domain.teams import Roster, Team
from tinyagi.engine.attachments import attach, preview, write_long_answer
from tinyagi.engine.style import Style
from tinyagi.plugins.host import Plugins
from tinyagi.plugins.specs import HookContext


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the person gets."""

    text: str
    files: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


def handoffs_of(text: str, message: Message, roster: Roster) -> tuple[Handoff, ...]:
    """One hand-off per mentioned teammate; the message's own team comes first, then the agent's others."""
    found: dict[AgentId, Handoff] = {}
    for team in _teams_of(message.agent, message.team, roster):
        for mention in mentions(text, message.agent, team):
            handoff = Handoff(mention.to, prompt_from_teammate(message.agent, mention.text), team.id)
            found.setdefault(mention.to, handoff)
    return tuple(found.values())


def posts_of(text: str, agent: AgentId, roster: Roster, passive: frozenset[TeamId]) -> tuple[RoomPost, ...]:
    """What the agent says in chat rooms, with what each other member reads."""
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


def chain_of(handoffs: tuple[Handoff, ...], message: Message, roster: Roster) -> TeamChainStart | None:
    """A conversation becomes its team's with the first hand-off, if it was not sent to the team to begin with."""
    if not handoffs or message.conversation_team is not None or handoffs[0].team is None:
        return None
    return chain_start(roster.teams[handoffs[0].team])


def chain_start(team: Team) -> TeamChainStart:
    return TeamChainStart(team.id, team.agents, team.leader)


@dataclass(frozen=True, slots=True)
class Shaping:
    """What every text for people goes through."""

    files: Path
    """Where attachments may also lie, and where long answers are put."""
    style: Style
    plugins: Plugins

    async def shape(self, text: str, *, folders: Sequence[Path], context: HookContext, name: str) -> Delivery:
        """Make a text fit for people: no raw tags, files apart, plugins last but for length and signature.

        Relative paths start in the first of the folders; `name` tells the file of a long text from others.
        """
        attached = attach(text, [*folders, self.files])
        shown = "\n".join([render_for_people(attached.text, context.agent), *attached.refused]).strip()
        transformed = await self.plugins.outgoing(shown, context)
        shown, files = transformed.text, attached.files
        if len(shown) > self.style.long_answer:
            full = await asyncio.to_thread(write_long_answer, shown, self.files, name)
            shown, files = preview(shown), (*files, str(full))
        if self.style.suffix:
            shown = f"{shown}\n\n- [{context.agent}]" if shown else f"- [{context.agent}]"
        return Delivery(shown, files, transformed.metadata)


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


def _teams_of(agent: AgentId, first: TeamId | None, roster: Roster) -> list[Team]:
    mine = [team for team in roster.teams.values() if agent in team.agents]
    return sorted(mine, key=lambda team: team.id != first)
