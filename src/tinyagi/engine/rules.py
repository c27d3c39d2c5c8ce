"""The settings as the engine uses them, worked out once per edit instead of once per run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from tinyagi.domain.batching import Batching
from tinyagi.domain.brakes import Brakes
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.retry import RetryPolicy
from tinyagi.domain.spending import Budget
from tinyagi.domain.teams import Roster
from tinyagi.engine.style import Style
from tinyagi.settings.derived import brakes, budgets, retention, retry_policy, roster
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.settings.model import Settings
from tinyagi.settings.resolve import AgentSetup, resolve
from tinyagi.store.base import Retention


@dataclass(frozen=True, slots=True)
class Rules:
    """One state of the settings. A run keeps the rules that its claim was made under."""

    settings: Settings
    home: Home
    roster: Roster
    brakes: Brakes
    budgets: Mapping[str, Budget]
    policy: RetryPolicy
    retention: Retention
    lease: timedelta
    passive_rooms: frozenset[TeamId]
    style: Style
    _setups: dict[AgentId, AgentSetup] = field(default_factory=dict, repr=False, compare=False)

    def setup_of(self, agent: AgentId) -> AgentSetup:
        """What a run of this agent uses; raise NotConfigured when the settings do not say."""
        setup = self._setups.get(agent)
        if setup is None:
            setup = self._setups[agent] = resolve(self.settings, agent, self.home)
        return setup

    def batching_of(self, agent: AgentId) -> Batching:
        configured = self.settings.agents.get(agent)
        return Batching.THREAD if configured is None else configured.batching


class Rulebook:
    """The rules as they are now."""

    def __init__(self, live: LiveSettings, home: Home) -> None:
        self.live = live
        self._home = home
        self._rules = _rules_of(live.current, home)

    @property
    def current(self) -> Rules:
        if self._rules.settings is not self.live.current:
            self._rules = _rules_of(self.live.current, self._home)
        return self._rules


def _rules_of(settings: Settings, home: Home) -> Rules:
    return Rules(
        settings=settings,
        home=home,
        roster=roster(settings),
        brakes=brakes(settings),
        budgets=budgets(settings),
        policy=retry_policy(settings),
        retention=retention(settings),
        lease=timedelta(seconds=settings.queue.lease_seconds),
        passive_rooms=frozenset(TeamId(id_) for id_, team in settings.teams.items() if team.chatroom == "passive"),
        style=Style(settings.responses.suffix, settings.responses.long_answer_characters),
    )
