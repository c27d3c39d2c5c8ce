"""Saves and deletes agents and teams: settings, workspace and waiting messages, in an order that loses nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

from tinyagi.agents.workspace import is_complete, prepare
from tinyagi.domain.errors import Conflict, InvalidInput
from tinyagi.domain.ids import AgentId
from tinyagi.domain.routing import Agent
from tinyagi.settings.agent_setup import agent_setup, effective_fields, workspace_problem
from tinyagi.settings.effective import default_agent
from tinyagi.settings.home import Home
from tinyagi.settings.json_tree import check_depth, replacing
from tinyagi.settings.live import LiveSettings
from tinyagi.settings.model import CUSTOM
from tinyagi.settings.parse import parse_settings
from tinyagi.settings.patches import agent_patch, agent_removal, agents_of, edited, no_agent, team_removal
from tinyagi.settings.secrets import merge
from tinyagi.store.store import Store


@dataclass(frozen=True, slots=True)
class MoveMessages:
    """Move the waiting messages to this agent."""

    agent: AgentId


@dataclass(frozen=True, slots=True)
class EndMessages:
    """End the waiting messages as dead; their senders get a notice."""


@dataclass(frozen=True, slots=True)
class DeletedAgent:
    messages: int
    """How many messages were moved or ended."""
    default_agent: AgentId
    """The default agent after the deletion."""
    leaders: Mapping[str, str]
    """Teams that got a new leader, with its id."""


class AgentAdmin:
    """The agents and teams of a home."""

    def __init__(self, store: Store, settings: LiveSettings, home: Home) -> None:
        self._store = store
        self._settings = settings
        self._home = home

    async def save_agent(self, agent: AgentId, fields: Mapping[str, object]) -> bool:
        """Add an agent or change its fields, with its workspace; True when the workspace is new.

        On InvalidInput, SettingsError or WorkspaceError the settings stay unchanged.
        """
        made = False

        def change(stored: Mapping[str, object]) -> Mapping[str, object]:
            nonlocal made
            check_depth(fields)
            patch = agent_patch(stored, agent, self._changed(stored, agent, fields))
            # The folder comes first: an agent needs a usable folder, while a folder without an agent is harmless.
            setup = agent_setup(parse_settings(merge(stored, patch)), agent, self._home)
            if problem := workspace_problem(setup.workspace, self._home):
                raise InvalidInput(f"The agent is not saved: {problem}.")
            made = not is_complete(setup.workspace)
            prepare(setup.workspace, Agent(agent, setup.name))
            return patch

        await self._settings.edit(change)
        return made

    def _changed(
        self, stored: Mapping[str, object], agent: AgentId, fields: Mapping[str, object]
    ) -> Mapping[str, object]:
        """The fields without unchanged defaults: clients send back all fields that they got from the list of agents."""
        effective = effective_fields(parse_settings(stored), agent, self._home)
        if not effective or not effective.keys() <= fields.keys():
            return fields
        changed = {name: value for name, value in fields.items() if name not in effective or value != effective[name]}
        if str(changed.get("provider", "")).startswith(CUSTOM):
            # A custom provider may know any model name, so the model sent with it is intended.
            changed["model"] = fields["model"]
        return changed

    async def delete_agent(
        self, agent: AgentId, waiting: MoveMessages | EndMessages | None, *, by: str
    ) -> DeletedAgent:
        """Delete an agent from the settings; its workspace stays. A run in progress may finish.

        Raise NotFound, InvalidInput, or Conflict when messages wait and `waiting` is None, when it is the last agent
        or a team's only one, or when a schedule names it. A repeated call finishes what a crash interrupted.
        """
        is_known = agent in agents_of(self._settings.raw)
        if not is_known and not await self._waiting(agent):
            raise no_agent(agent)
        self._check_receiver(agent, waiting)
        await self._check_schedules(agent)
        if is_known:
            agent_removal(self._settings.raw, agent)
        await self._check_waiting(agent, waiting)
        # A paused lane starts no run: a waiting message can neither run without its agent nor leave the lane unseen.
        paused = await self._store.lanes.pause(agent)
        try:
            await self._check_waiting(agent, waiting)
            leaders = await self._remove_from_settings(agent) if is_known else {}
        except BaseException:
            if paused:
                await self._store.lanes.resume(agent)
            raise
        moved = await self._clear_lane(agent, waiting)
        # A later agent with this name starts without a session.
        await self._store.sessions.reset(agent, by=by)
        await self._store.lanes.resume(agent)
        return DeletedAgent(moved, default_agent(self._settings.current), leaders)

    async def change_settings(self, patch: Mapping[str, object], *, replace: bool, by: str) -> Mapping[str, object]:
        """Merge a patch into the settings, or replace the sections it names; return the settings from before.

        Agents, teams and providers that it removes pass the checks of their deletion; an agent with waiting messages
        cannot be removed this way. On SettingsError or Conflict nothing changes.
        """
        check_depth(patch)
        leaving = edited(self._settings.raw, patch, replace=replace)
        for name in (*leaving.teams, *leaving.agents):
            await self._check_schedules(name)

        before: Mapping[str, object] = {}

        def change(stored: Mapping[str, object]) -> Mapping[str, object]:
            nonlocal before
            before, now = stored, edited(stored, patch, replace=replace)
            if (now.agents, now.teams) != (leaving.agents, leaving.teams):
                raise Conflict("The settings have changed in the meantime. Read them again before you replace them.")
            return replacing(stored, now.settings)

        paused = []
        try:
            for agent in map(AgentId, leaving.agents):
                # A paused lane starts no run, so no message can run without its agent.
                if await self._store.lanes.pause(agent):
                    paused.append(agent)
                await self._refuse_waiting(agent)
            await self._settings.edit(change)
        except BaseException:
            for agent in paused:
                await self._store.lanes.resume(agent)
            raise
        for agent in map(AgentId, leaving.agents):
            await self._store.sessions.reset(agent, by=by)
            await self._store.lanes.resume(agent)
        return before

    async def _refuse_waiting(self, agent: AgentId) -> None:
        if count := await self._waiting(agent):
            wait = "message waits" if count == 1 else "messages wait"
            remedy = f"`tinyagi agent remove {agent}`, or DELETE /api/agents/{agent}?messages=…"
            raise Conflict(f"{count} {wait} for @{agent}. Delete the agent and choose what happens to them: {remedy}")

    async def delete_team(self, team: str) -> None:
        """Delete a team; its agents stay. Raise NotFound, and Conflict when a schedule names it."""
        await self._check_schedules(team)
        await self._settings.edit(lambda stored: team_removal(stored, team))

    async def _remove_from_settings(self, agent: AgentId) -> Mapping[str, str]:
        leaders: Mapping[str, str] = {}

        def change(stored: Mapping[str, object]) -> Mapping[str, object]:
            nonlocal leaders
            removal = agent_removal(stored, agent)
            leaders = removal.leaders
            return removal.patch

        await self._settings.edit(change)
        return leaders

    async def _clear_lane(self, agent: AgentId, waiting: MoveMessages | EndMessages | None) -> int:
        match waiting:
            case MoveMessages(agent=receiver):
                return await self._store.queue.move(agent, receiver)
            case EndMessages():
                return await self._store.queue.abandon(agent, reason=f"agent @{agent} was deleted")
            case None:
                return 0

    def _check_receiver(self, agent: AgentId, waiting: MoveMessages | EndMessages | None) -> None:
        if not isinstance(waiting, MoveMessages):
            return
        if waiting.agent == agent:
            raise InvalidInput(f"The messages of @{agent} cannot move to @{agent} itself. Name another agent.")
        agents = agents_of(self._settings.raw)
        if waiting.agent not in agents:
            raise InvalidInput(f"There is no agent @{waiting.agent} to move to. There are: {', '.join(agents)}.")

    async def _check_waiting(self, agent: AgentId, waiting: MoveMessages | EndMessages | None) -> None:
        count = await self._waiting(agent)
        if count and waiting is None:
            raise Conflict(
                f"{count} {'message waits' if count == 1 else 'messages wait'} for @{agent}. "
                "Use ?messages=dead to end them, or ?messages=move:<agent> to move them to another agent."
            )

    async def _waiting(self, agent: AgentId) -> int:
        depth = await self._store.queue.depth()
        return sum(lane.pending for lane in depth.lanes if lane.agent == agent)

    async def _check_schedules(self, name: str) -> None:
        labels = [schedule.label for schedule in await self._store.schedules.all() if schedule.agent_id == name]
        if labels:
            more = "" if len(labels) <= 5 else f" and {len(labels) - 5} more"
            raise Conflict(
                f"Schedules send to {name}: {', '.join(labels[:5])}{more}. Delete them or give them another agent."
            )
