"""Who gets a text: the prefix and tags of a person's message, the hand-offs and room posts of an agent's answer."""

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.tags import TagKind, parse, shared_context
from tinyagi.domain.teams import Agent, Roster, Team

_PREFIX: Final = re.compile(r"@(?P<name>\S++)\s++")

_Target = TypeVar("_Target", bound=Hashable)
_Id = TypeVar("_Id", AgentId, TeamId)


@dataclass(frozen=True, slots=True)
class Route:
    """Where a person's text goes; `team` is set when the agent answers as that team's leader."""

    agent: AgentId
    team: TeamId | None
    text: str


@dataclass(frozen=True, slots=True)
class Mention:
    to: AgentId
    text: str


@dataclass(frozen=True, slots=True)
class Post:
    team: TeamId
    text: str


def route(text: str, roster: Roster, sticky: AgentId | None = None) -> Route:
    """Return the route by prefix; without one the text goes unchanged to the chat's sticky agent or the default."""
    return _by_prefix(text, roster) or _by_default(text, roster, sticky)


def fan_out(text: str, roster: Roster, sticky: AgentId | None = None) -> tuple[Route, ...]:
    """Return one route per target of a person's message: a prefix wins over tags, and tags over the default."""
    prefixed = _by_prefix(text, roster)
    if prefixed is not None:
        return (prefixed,)
    # An agent and the team it leads are two targets: the team's message keeps its team.
    directed = _directed(text, lambda name: _find(name, roster))
    if not directed:
        return (_by_default(text, roster, sticky),)
    return tuple(Route(agent, team, told) for (agent, team), told in directed.items())


def mentions(text: str, sender: AgentId, team: Team) -> tuple[Mention, ...]:
    """Return the hand-offs of an agent's answer: one per tagged teammate, in the order of their first tags."""
    teammates = {str(teammate): teammate for teammate in team.teammates_of(sender)}
    directed = _directed(text, lambda name: teammates.get(name.lower()))
    return tuple(Mention(teammate, told) for teammate, told in directed.items())


def room_posts(text: str, roster: Roster) -> tuple[Post, ...]:
    """Return a person's posts to chat rooms: any team's room is open to people."""
    rooms = ((_find_team(tag.target, roster), tag.text) for tag in parse(text) if tag.kind is TagKind.ROOM)
    return tuple(Post(team, post) for team, post in rooms if team is not None and post)


def room_posts_of_answer(text: str, sender: AgentId, roster: Roster) -> tuple[Post, ...]:
    """Return an agent's posts to chat rooms: only to teams that it belongs to."""
    return tuple(post for post in room_posts(text, roster) if sender in roster.teams[post.team].agents)


def prompt_from_teammate(sender: AgentId, text: str) -> str:
    """Return a hand-off as its receiver reads it."""
    return f"[Message from teammate @{sender}]:\n{text}"


def prompt_from_room(team: TeamId, sender: str, text: str) -> str:
    """Return a room post as the other members read it; the sender may be a person."""
    return f"[Chat room #{team} — @{sender}]:\n{text}"


def _by_prefix(text: str, roster: Roster) -> Route | None:
    prefix = _PREFIX.match(text)
    if prefix is None:
        return None
    target = _find(prefix["name"], roster)
    if target is None:
        return None
    agent, team = target
    return Route(agent, team, text[prefix.end() :])


def _by_default(text: str, roster: Roster, sticky: AgentId | None) -> Route:
    # A chat may still stick to an agent that has been deleted since.
    agent = sticky if sticky is not None and sticky in roster.agents else roster.default
    return Route(agent, None, text)


def _directed(text: str, find: Callable[[str], _Target | None]) -> dict[_Target, str]:
    """What each target of the direct tags is told, by first tag; an empty tag says nothing to anybody."""
    tags = parse(text)
    parts: dict[_Target, list[str]] = {}
    for tag in tags:
        if tag.kind is TagKind.DIRECT and tag.text:
            names = filter(None, map(str.strip, tag.target.split(",")))
            # Whoever stands twice in one list is told once.
            for target in dict.fromkeys(map(find, names)):
                if target is not None:
                    parts.setdefault(target, []).append(tag.text)
    if not parts:
        return {}
    shared = shared_context(text, tags)
    return {target: _with_context(shared, "\n\n".join(texts)) for target, texts in parts.items()}


def _with_context(shared: str, directed: str) -> str:
    return f"{shared}\n\n------\n\nDirected to you:\n{directed}" if shared else directed


def _find(name: str, roster: Roster) -> tuple[AgentId, TeamId | None] | None:
    """Look among ids first, then display names, agents before teams; a team is found as its leader."""
    agent, team = AgentId(name.lower()), TeamId(name.lower())
    if agent in roster.agents:
        return agent, None
    if team in roster.teams:
        return roster.teams[team].leader, team
    named_agent = _by_display_name(name, roster.agents)
    if named_agent is not None:
        return named_agent, None
    named_team = _by_display_name(name, roster.teams)
    return None if named_team is None else (roster.teams[named_team].leader, named_team)


def _find_team(name: str, roster: Roster) -> TeamId | None:
    team = TeamId(name.lower())
    return team if team in roster.teams else _by_display_name(name, roster.teams)


def _by_display_name(name: str, named: Mapping[_Id, Agent] | Mapping[_Id, Team]) -> _Id | None:
    wanted = name.casefold()
    return next((id_ for id_, one in named.items() if one.name.casefold() == wanted), None)
