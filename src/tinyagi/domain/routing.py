"""Routing: the receivers of a person's message, by prefix and tags, and of an agent's hand-offs and room posts."""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, TypeVar

from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.tags import TagKind, parse_tags, shared_context, without_brackets

DEFAULT_AGENT: Final = AgentId("tinyagi")
"""The agent of a new home."""
MAX_POSTS: Final = 20
"""Room posts of one text; further ones are joined, one for each room."""
DIRECTED: Final = "\n\n------\n\nDirected to you:\n"
"""Separates the text for all targets from the text for one."""

_PREFIX: Final = re.compile(r"@(?P<name>\S++)\s++")

# A possible agent name: no digit first (`@5pm`), no dot inside (`@example.org`).
_NAME: Final = re.compile(r"(?P<sign>[@#])(?P<name>[^\W\d][\w-]{0,63}+)(?P<mark>[,:;.!?]?)(?=\s|\Z)")

_Target = TypeVar("_Target", bound=Hashable)
_Id = TypeVar("_Id", AgentId, TeamId)


@dataclass(frozen=True, slots=True)
class Route:
    """The target of a person's text; `team` is set when the agent answers as that team's leader."""

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


@dataclass(frozen=True, slots=True)
class Agent:
    id: AgentId
    name: str


@dataclass(frozen=True, slots=True)
class Team:
    """Agents that may hand work to each other; the leader answers messages to the team."""

    id: TeamId
    name: str
    agents: tuple[AgentId, ...]
    leader: AgentId

    def teammates_of(self, agent: AgentId) -> tuple[AgentId, ...]:
        """Every member but the agent itself."""
        return tuple(member for member in self.agents if member != agent)


@dataclass(frozen=True, slots=True)
class Roster:
    """All agents and teams at one moment; the default agent takes messages without a recipient."""

    agents: Mapping[AgentId, Agent]
    teams: Mapping[TeamId, Team]
    default: AgentId

    def name_of(self, agent: str) -> str:
        """The display name of an agent, or its id when the agent was deleted."""
        found = self.agents.get(AgentId(agent))
        return agent if found is None else found.name


def route(text: str, roster: Roster, sticky: AgentId | None = None) -> Route:
    """Return the route by prefix; without one the text goes unchanged to the chat's sticky agent or the default."""
    return _by_prefix(text, roster) or _by_default(text, roster, sticky)


def fan_out(text: str, roster: Roster, sticky: AgentId | None = None) -> tuple[Route, ...]:
    """Return one route per target of a person's message: a prefix wins over tags, and tags over the default.

    The store keeps a route's text, with its prefix; `without_prefix` removes the prefix for the prompt.
    """
    prefixed = _by_prefix(text, roster)
    if prefixed is not None:
        return (replace(prefixed, text=text),)
    # An agent and the team it leads are two targets: the team's message keeps its team.
    directed = _directed(text, lambda name: _find(name, roster))
    if not directed:
        return (_by_default(text, roster, sticky),)
    return tuple(Route(agent, team, directed_text) for (agent, team), directed_text in directed.items())


def address_warning(text: str, routes: Sequence[Route], roster: Roster) -> str | None:
    """Return a warning for the sender when the name at the front of the text reached no agent, else None."""
    written = _NAME.match(text)
    if written is None:
        return None
    sign, name, mark = written["sign"], written["name"], written["mark"]
    receivers = " and ".join(dict.fromkeys(f"@{route.agent}" for route in routes))
    if _find(name, roster) is not None:
        if sign == "#" or mark:
            return f'The message went to {receivers}. Write "@{name} " instead of "{written[0]}" to reach @{name}.'
        is_bare = text.strip() == written[0]
        return f'The message went to {receivers}. Write what to do after "@{name}".' if is_bare else None
    if sign == "#":
        # A heading or a hashtag.
        return None
    near = get_close_matches(name.lower(), [*roster.agents, *roster.teams], n=1)
    hint = f" Did you mean @{near[0]}?" if near and f"@{near[0]}" not in receivers else ""
    return f'There is no agent or team "{name}"; the message went to {receivers}.{hint}'


def without_prefix(text: str, agent: AgentId, roster: Roster) -> str:
    """Return the message without a prefix that names this agent or a team it leads, as the prompt shows it."""
    prefixed = _by_prefix(text, roster)
    return text if prefixed is None or prefixed.agent != agent else prefixed.text


def mentions(text: str, sender: AgentId, team: Team) -> tuple[Mention, ...]:
    """Return the hand-offs of an agent's answer: one per tagged teammate, in the order of their first tags."""
    teammates = {str(teammate): teammate for teammate in team.teammates_of(sender)}
    directed = _directed(text, lambda name: teammates.get(name.lower()))
    return tuple(Mention(teammate, directed_text) for teammate, directed_text in directed.items())


def room_posts(text: str, roster: Roster) -> tuple[Post, ...]:
    """Return a person's posts to chat rooms; people may post to any team's room."""
    posts = (tag for tag in parse_tags(text) if tag.kind is TagKind.ROOM)
    rooms = ((_find_team(tag.target, roster), without_brackets(tag.text)) for tag in posts)
    return _bounded([Post(team, post) for team, post in rooms if team is not None and post])


def _bounded(posts: Sequence[Post]) -> tuple[Post, ...]:
    """Bound the posts of one text: each post becomes a message for every member of its room."""
    joined: dict[TeamId, list[str]] = {}
    for post in posts[MAX_POSTS:]:
        joined.setdefault(post.team, []).append(post.text)
    return (*posts[:MAX_POSTS], *(Post(team, "\n\n".join(texts)) for team, texts in joined.items()))


def room_posts_of_answer(text: str, sender: AgentId, roster: Roster) -> tuple[Post, ...]:
    """Return an agent's posts to chat rooms; an agent may post only to its own teams."""
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
    # The sticky agent of a chat may have been deleted.
    agent = sticky if sticky is not None and sticky in roster.agents else roster.default
    return Route(agent, None, text)


def _directed(text: str, find: Callable[[str], _Target | None]) -> dict[_Target, str]:
    """The text for each target of the direct tags, in the order of their first tags; empty tags are skipped."""
    tags = parse_tags(text)
    parts: dict[_Target, list[str]] = {}
    for tag in tags:
        if tag.kind is TagKind.DIRECT and tag.text:
            names = filter(None, map(str.strip, tag.target.split(",")))
            # A target listed twice in one tag gets its text once.
            for target in dict.fromkeys(map(find, names)):
                if target is not None:
                    parts.setdefault(target, []).append(tag.text)
    if not parts:
        return {}
    shared = shared_context(text, tags)
    return {target: _with_context(shared, "\n\n".join(texts)) for target, texts in parts.items()}


def _with_context(shared: str, directed: str) -> str:
    return f"{shared}{DIRECTED}{directed}" if shared else directed


def _find(name: str, roster: Roster) -> tuple[AgentId, TeamId | None] | None:
    """Match ids first, then display names, agents before teams; a team resolves to its leader."""
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
