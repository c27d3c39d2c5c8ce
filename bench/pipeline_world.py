"""The office of a synthetic history: agents, teams, people, errors, and the random numbers that drive them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from random import Random
from typing import Final, NamedTuple

from tinyagi.domain.events import AgentRouted
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.limits import Price, Usage
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.domain.routing import Agent, Roster, Team
from tinyagi.domain.runs import Claim

PROSE: Final = (
    "the order parcel customer invoice branch release test build server log table query report chart price "
    "we you they it is was has will can should must needs found fixed moved sent read wrote checked opened closed "
    "today tomorrow yesterday again first last open new old small large quick late ready broken missing double "
    "please thanks because before after with without about from into between and or but not only also still "
    "queue event agent team answer question reason plan draft review summary deadline meeting ticket contract"
)
"""The words of every text."""
TEXT_LENGTHS: Final = (20, 600)
CHANNELS: Final = ("telegram", "discord", "whatsapp", "web", "api")
PEOPLE: Final = 300

TEAMS: Final = {
    "dev": ("lead", "coder", "tester", "reviewer"),
    "support": ("desk", "billing", "shipping"),
    "press": ("editor", "writer", "analyst"),
}
ALONE: Final = ("tinyagi", "nurse")
PASSIVE_ROOMS: Final = frozenset({TeamId("press")})

MODELS: Final = (
    ("anthropic", "claude-opus-4-5", Price(15, 75, 1.5)),
    ("anthropic", "claude-sonnet-4-5", Price(3, 15, 0.3)),
    ("openai", "gpt-5-codex", Price(1.25, 10, 0.125)),
    ("opencode", "glm-4-6", Price(0.6, 2.2, 0.11)),
)


class Fault(NamedTuple):
    """An error shape: the numbers in it differ from one failure to the next."""

    kind: FailureKind
    text: str
    retry_after: timedelta | None = None


TRANSIENT: Final = (
    Fault(FailureKind.MESSAGE, "the program ended with code 1: stream closed after {0} bytes"),
    Fault(FailureKind.MESSAGE, "the answer is no JSON: line 1 column {0}"),
    Fault(FailureKind.TIMEOUT, "no output for 300 s after {0} bytes"),
    Fault(FailureKind.UNAVAILABLE, "429 Too Many Requests (request req_{0:08x})", timedelta(seconds=30)),
    Fault(FailureKind.UNAVAILABLE, "529 overloaded (request req_{0:08x})", timedelta(minutes=2)),
)
LASTING: Final = (
    Fault(FailureKind.MESSAGE, "prompt is too long: {0} tokens, 200000 are allowed"),
    Fault(FailureKind.MESSAGE, "the file report-{0}.pdf cannot be read: it is damaged"),
    Fault(FailureKind.MESSAGE, "the tool run_tests ended with code {0}\nsee its output above"),
    Fault(FailureKind.TIMEOUT, "the run took longer than 300 s, ended at step {0}"),
)


class Person(NamedTuple):
    channel: str
    name: str
    id: str | None


@dataclass(frozen=True, slots=True)
class Worker:
    """What an agent runs on, and how long its runs take."""

    name: str
    provider: str
    model: str
    price: Price
    run_ms: float
    """The median."""

    def routed(self, team: TeamId | None) -> AgentRouted:
        return AgentRouted(self.name, self.provider, self.model, team)


class World:
    """The same people, texts and rolls for the same seed."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        agents = [AgentId(name) for name in (*(name for team in TEAMS.values() for name in team), *ALONE)]
        teams = [
            Team(TeamId(team), team.title(), tuple(map(AgentId, names)), AgentId(names[0]))
            for team, names in TEAMS.items()
        ]
        self.roster: Final = Roster(
            {agent: Agent(agent, agent.title()) for agent in agents}, {team.id: team for team in teams}, agents[-2]
        )
        # The office does not depend on the seed, so that an appended history has the same one.
        fixed = Random(0)
        self._workers = {
            agent: Worker(agent.title(), *MODELS[number % len(MODELS)], fixed.uniform(4_000, 20_000))
            for number, agent in enumerate(agents)
        }
        self._people = list(_people(fixed))
        self._prose = " ".join(fixed.choices(PROSE.split(), k=40_000))
        self._agents, self._agent_shares = agents, list(accumulate(1 / (n + 6) for n in range(len(agents))))
        self._person_shares = list(accumulate(1 / (n + 10) for n in range(PEOPLE)))

    def worker(self, agent: AgentId) -> Worker:
        return self._workers[agent]

    def happens(self, share: float) -> bool:
        return self.dice.random() < share

    def person(self) -> Person:
        """A few people write most of the messages."""
        return self.dice.choices(self._people, cum_weights=self._person_shares)[0]

    def agent(self) -> AgentId:
        return self.dice.choices(self._agents, cum_weights=self._agent_shares)[0]

    def team(self) -> Team:
        return self.dice.choice(list(self.roster.teams.values()))

    def team_of(self, agent: AgentId) -> Team | None:
        return next((team for team in self.roster.teams.values() if agent in team.agents), None)

    def text(self, median: float = 110) -> str:
        shortest, longest = TEXT_LENGTHS
        # Two more than the shortest: there may be a blank at either end.
        length = min(longest, max(shortest + 2, self.spread(median, 0.8)))
        start = self.dice.randrange(len(self._prose) - longest)
        return self._prose[start : start + length].strip()

    def delay(self, median_ms: float, sigma: float = 1.0) -> int:
        """A wait in milliseconds, log-normal, at least 1."""
        return max(1, self.spread(median_ms, sigma))

    def spread(self, median: float, sigma: float) -> int:
        """A log-normal number."""
        return round(median * math.exp(sigma * self.dice.gauss(0.0, 1.0)))

    def usage(self, agent: AgentId, answer: str) -> Usage:
        worker = self._workers[agent]
        used = Usage(
            input_tokens=self.spread(2_000, 0.9),
            output_tokens=len(answer) // 4 + self.spread(150, 1.0),
            cache_tokens=self.spread(6_600, 1.1) if worker.provider == "anthropic" else None,
            provider=worker.provider,
            model=worker.model,
        )
        cost = round(worker.price.of(used), 6)
        return Usage(used.input_tokens, used.output_tokens, used.cache_tokens, cost, used.provider, used.model)

    def failure(self, claim: Claim, fault: Fault) -> Failure:
        reason = fault.text.format(self.dice.randrange(2, 1_000_000))
        # An unavailable provider reports no usage.
        used = None if fault.kind is FailureKind.UNAVAILABLE else self.usage(claim.agent, "")
        return Failure(fault.kind, reason, fault.retry_after, usage=used)


def _people(dice: Random) -> Iterator[Person]:
    for number in range(PEOPLE):
        channel = CHANNELS[number % len(CHANNELS)]
        yield Person(channel, f"Person {number:03d}", None if channel == "api" else str(dice.randrange(10**8, 10**9)))
