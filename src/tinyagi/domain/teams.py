"""Who is there: agents, teams and the default agent, as routing and hand-offs see them."""

from collections.abc import Mapping
from dataclasses import dataclass

from tinyagi.domain.ids import AgentId, TeamId


@dataclass(frozen=True, slots=True)
class Agent:
    id: AgentId
    name: str


@dataclass(frozen=True, slots=True)
class Team:
    """Agents that may hand work to each other; the leader answers what is sent to the team."""

    id: TeamId
    name: str
    agents: tuple[AgentId, ...]
    leader: AgentId

    def teammates_of(self, agent: AgentId) -> tuple[AgentId, ...]:
        """Every member but the agent itself."""
        return tuple(member for member in self.agents if member != agent)


@dataclass(frozen=True, slots=True)
class Roster:
    """All agents and teams at one moment; the default agent takes what names nobody."""

    agents: Mapping[AgentId, Agent]
    teams: Mapping[TeamId, Team]
    default: AgentId
