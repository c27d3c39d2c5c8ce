"""Agents come and go: settings, workspace, and the messages that wait for them, in an order that loses nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

from tinyagi.agents.workspace import is_complete, prepare
from tinyagi.domain.errors import Conflict, InvalidInput
from tinyagi.domain.ids import AgentId
from tinyagi.domain.teams import Agent
from tinyagi.settings.derived import default_agent
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.settings.notation import check_depth
from tinyagi.settings.parse import parse
from tinyagi.settings.resolve import resolve
from tinyagi.settings.secrets import merge
from tinyagi.settings.staff import agents_of, no_agent, with_agent, without_agent, without_team
from tinyagi.store.base import Store


@dataclass(frozen=True, slots=True)
class MoveTo:
    """The messages that wait go to this agent."""

    agent: AgentId


@dataclass(frozen=True, slots=True)
class End:
    """The messages that wait are dead, and their senders are told."""


@dataclass(frozen=True, slots=True)
class Dismissed:
    messages: int
    """How many were moved or ended."""
    default_agent: AgentId
    """Who takes what names nobody from now on."""
    leaders: Mapping[str, str]
    """Teams that got another leader."""


class Staff:
    """The agents and teams of a home."""

    def __init__(self, store: Store, settings: LiveSettings, home: Home) -> None:
        self._store = store
        self._settings = settings
        self._home = home

    async def hire(self, agent: AgentId, fields: Mapping[str, object]) -> bool:
        """Add an agent or change its fields, with its workspace; True when the workspace was made now.

        Raise InvalidInput, SettingsError or WorkspaceError and change nothing in the settings.
        """
        made = False

        def change(stored: Mapping[str, object]) -> Mapping[str, object]:
            nonlocal made
            check_depth(fields)
            patch = with_agent(stored, agent, fields)
            # No agent is stored whose folder cannot be used; a folder without an agent harms nobody.
            setup = resolve(parse(merge(stored, patch)), agent, self._home)
            made = not is_complete(setup.workspace)
            prepare(setup.workspace, Agent(agent, setup.name))
            return patch

        await self._settings.edit(change)
        return made

    async def dismiss(self, agent: AgentId, waiting: MoveTo | End | None, *, by: str) -> Dismissed:
        """Delete an agent from the settings; its workspace stays. A run that is going on is let finish.

        Raise NotFound, InvalidInput, or Conflict when messages wait and nothing is said of them, when it is the last
        agent or a team's only one, or when a schedule names it. To repeat it finishes what a crash has interrupted.
        """
        is_known = agent in agents_of(self._settings.raw)
        if not is_known and not await self._waiting(agent):
            raise no_agent(agent)
        self._check_heir(agent, waiting)
        await self._check_schedules(agent)
        if is_known:
            without_agent(self._settings.raw, agent)
        await self._check_waiting(agent, waiting)
        # From here on nothing of this lane begins: what waits can neither run without its agent nor slip away.
        paused = await self._store.lanes.pause(agent)
        try:
            await self._check_waiting(agent, waiting)
            leaders = await self._leave(agent) if is_known else {}
        except BaseException:
            if paused:
                await self._store.lanes.resume(agent)
            raise
        moved = await self._vacate(agent, waiting)
        # An agent that gets this name later is a new one.
        await self._store.sessions.reset(agent, by=by)
        await self._store.lanes.resume(agent)
        return Dismissed(moved, default_agent(self._settings.current), leaders)

    async def dissolve(self, team: str) -> None:
        """Delete a team; its agents stay. Raise NotFound, and Conflict when a schedule names it."""
        await self._check_schedules(team)
        await self._settings.edit(lambda stored: without_team(stored, team))

    async def _leave(self, agent: AgentId) -> Mapping[str, str]:
        leaders: Mapping[str, str] = {}

        def change(stored: Mapping[str, object]) -> Mapping[str, object]:
            nonlocal leaders
            departure = without_agent(stored, agent)
            leaders = departure.leaders
            return departure.patch

        await self._settings.edit(change)
        return leaders

    async def _vacate(self, agent: AgentId, waiting: MoveTo | End | None) -> int:
        match waiting:
            case MoveTo(agent=heir):
                return await self._store.queue.move(agent, heir)
            case End():
                return await self._store.queue.abandon(agent, reason=f"agent @{agent} was deleted")
            case None:
                return 0

    def _check_heir(self, agent: AgentId, waiting: MoveTo | End | None) -> None:
        if not isinstance(waiting, MoveTo):
            return
        if waiting.agent == agent:
            raise InvalidInput(f"The messages of @{agent} cannot move to @{agent} itself. Name another agent.")
        everybody = agents_of(self._settings.raw)
        if waiting.agent not in everybody:
            raise InvalidInput(f"There is no agent @{waiting.agent} to move to; known are: {', '.join(everybody)}.")

    async def _check_waiting(self, agent: AgentId, waiting: MoveTo | End | None) -> None:
        count = await self._waiting(agent)
        if count and waiting is None:
            raise Conflict(
                f"{count} {'message waits' if count == 1 else 'messages wait'} for @{agent}. "
                "Say ?messages=dead to end them, or ?messages=move:<agent> to give them to another agent."
            )

    async def _waiting(self, agent: AgentId) -> int:
        depth = await self._store.queue.depth()
        return sum(lane.pending for lane in depth.lanes if lane.agent == agent)

    async def _check_schedules(self, name: str) -> None:
        labels = [schedule.label for schedule in await self._store.schedules.all() if schedule.agent_id == name]
        if labels:
            more = "" if len(labels) <= 5 else f" and {len(labels) - 5} more"
            raise Conflict(
                f"{', '.join(labels[:5])}{more}: schedules that send to {name}. Delete them or give them another agent."
            )
