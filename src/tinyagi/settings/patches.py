"""Patches that add, change or remove agents, teams and providers, together with everything that refers to them.

A patch is computed from the stored settings; one that would break a reference is refused. Writes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.domain.ids import AgentId
from tinyagi.domain.models import knows_model
from tinyagi.settings.agent_setup import effective_fields
from tinyagi.settings.home import Home
from tinyagi.settings.json_tree import merged, object_at, replacing
from tinyagi.settings.model import CUSTOM
from tinyagi.settings.parse import parse_settings
from tinyagi.settings.secrets import MASK, masked, merge

Patch = dict[str, object]

_PROVIDERS: Final = "custom_providers"
_REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "agents": ("name", "provider"),
    "teams": ("name", "agents", "leader_agent"),
    "custom_providers": ("harness", "base_url"),
}
_NOUNS: Final[Mapping[str, str]] = {"agents": "agent", "teams": "team", "custom_providers": "provider"}


@dataclass(frozen=True, slots=True)
class AgentRemoval:
    """The patch that removes an agent, and the new leader of each team that it led."""

    patch: Patch
    leaders: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Edit:
    """The settings after an edit, and the agents and teams it removed."""

    settings: Mapping[str, object]
    agents: tuple[str, ...]
    teams: tuple[str, ...]


def edited(raw: Mapping[str, object], patch: Mapping[str, object], *, replace: bool) -> Edit:
    """Merge a patch, or replace the stored sections with its own.

    Missing agents, teams and providers are removed as by `agent_removal` and the like, which raise Conflict.
    """
    if replace:
        patch = replacing({name: raw[name] for name in patch if name in raw}, patch)
    after = without_moved_keys(raw, patch, merge(raw, patch))
    teams, agents = _removed(raw, after, "teams"), _removed(raw, after, "agents")
    # Teams first: a team's only member may be removed with it. Providers last: their users may be removed with them.
    for team in teams:
        after = merged(after, team_removal(_with_stored(raw, after, "teams", team), team))
    for agent in agents:
        after = merged(after, agent_removal(_with_stored(raw, after, "agents", agent), agent).patch)
    for provider in _removed(raw, after, _PROVIDERS):
        provider_removal(_with_stored(raw, after, _PROVIDERS, provider), provider)
    return Edit(after, agents, teams)


def _removed(raw: Mapping[str, object], after: Mapping[str, object], section: str) -> tuple[str, ...]:
    left = after.get(section, {})
    # The check of the whole settings refuses anything but an object.
    return tuple(name for name in section_of(raw, section) if name not in left) if isinstance(left, Mapping) else ()


def _with_stored(raw: Mapping[str, object], after: Mapping[str, object], section: str, name: str) -> Patch:
    return {**after, section: {**object_at(after, section), name: section_of(raw, section)[name]}}


def agents_of(raw: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """The stored agents; without any, the implied default agent."""
    stored = section_of(raw, "agents")
    if stored:
        return stored
    implied = parse_settings({}).agents.items()
    return {name: agent.model_dump(mode="json", exclude_unset=True) for name, agent in implied}


def listed_agents(raw: Mapping[str, object], home: Home) -> dict[str, dict[str, object]]:
    """Every agent for display: with the values in force, and with masked secrets."""
    settings = parse_settings(raw)
    return {
        agent: {**masked(stored), **effective_fields(settings, AgentId(agent), home)}
        for agent, stored in agents_of(raw).items()
    }


def section_of(raw: Mapping[str, object], name: str) -> dict[str, Mapping[str, object]]:
    """The stored objects of a section, by name."""
    return {key: value for key, value in object_at(raw, name).items() if isinstance(value, Mapping)}


def agent_patch(raw: Mapping[str, object], agent: str, fields: Mapping[str, object]) -> Patch:
    """Add an agent or change its fields; raise InvalidInput."""
    agents = agents_of(raw)
    _check("agents", agent, fields, is_new=agent not in agents)
    # Store the implied agent too: it would disappear as soon as another one is stored.
    implied = {name: value for name, value in agents.items() if name not in object_at(raw, "agents")}
    changed = {**implied.get(agent, {}), **fields}
    if _loses_model(raw, agents.get(agent, {}), fields):
        changed["model"] = None
    return {"agents": {**implied, agent: changed}}


def _loses_model(raw: Mapping[str, object], stored: Mapping[str, object], fields: Mapping[str, object]) -> bool:
    """True when the agent gets another provider that does not know the agent's current model."""
    model, provider = stored.get("model"), fields.get("provider")
    if not isinstance(model, str) or not isinstance(provider, str) or "model" in fields:
        return False
    aliases = {name: str(value) for name, value in object_at(raw, "models", "aliases").items()}
    return provider != stored.get("provider") and not knows_model(provider, model, aliases)


def team_patch(raw: Mapping[str, object], team: str, fields: Mapping[str, object]) -> Patch:
    """Add a team or change its fields; raise InvalidInput."""
    _check("teams", team, fields, is_new=team not in section_of(raw, "teams"))
    return {"teams": {team: dict(fields)}}


def provider_patch(raw: Mapping[str, object], provider: str, fields: Mapping[str, object]) -> Patch:
    """Add a provider or change its fields; raise InvalidInput."""
    _check("custom_providers", provider, fields, is_new=provider not in section_of(raw, "custom_providers"))
    return {"custom_providers": {provider: dict(fields)}}


def agent_removal(raw: Mapping[str, object], agent: str) -> AgentRemoval:
    """Remove an agent and every reference to it; raise NotFound, or Conflict for a last agent or only member."""
    agents = agents_of(raw)
    if agent not in agents:
        raise no_agent(agent)
    if len(agents) == 1:
        raise Conflict(f"@{agent} is the last agent. Add another one before you delete it.")
    teams, leaders = _teams_without(raw, agent)
    patch: Patch = {"agents": {agent: None}}
    if teams:
        patch["teams"] = teams
    if raw.get("default_agent") == agent:
        patch["default_agent"] = None
    sticky = [chat for chat, name in object_at(raw, "channels", "defaults").items() if _agent_id(name) == agent]
    if sticky:
        patch["channels"] = {"defaults": dict.fromkeys(sticky)}
    if agent in object_at(raw, "limits", "agents"):
        patch["limits"] = {"agents": {agent: None}}
    return AgentRemoval(patch, leaders)


def _agent_id(stored: object) -> object:
    """The agent of a chat, stored as an id or, by the original, as an object."""
    return stored.get("agentId") if isinstance(stored, Mapping) else stored


def team_removal(raw: Mapping[str, object], team: str) -> Patch:
    """Remove a team; its agents stay. Raise NotFound."""
    if team not in section_of(raw, "teams"):
        raise NotFound(f"There is no team {team}. List the teams to see their names.")
    patch: Patch = {"teams": {team: None}}
    if team in object_at(raw, "limits", "teams"):
        patch["limits"] = {"teams": {team: None}}
    return patch


def provider_removal(raw: Mapping[str, object], provider: str) -> Patch:
    """Remove a provider; raise NotFound, or Conflict when it is in use."""
    if provider not in section_of(raw, "custom_providers"):
        raise NotFound(f"There is no provider {provider}. List the custom providers to see their names.")
    name = f"{CUSTOM}{provider}"
    users = [f"@{agent}" for agent, fields in section_of(raw, "agents").items() if fields.get("provider") == name]
    if object_at(raw, "models").get("provider") == name:
        users.append("models.provider")
    if users:
        raise Conflict(f"{name} is still used by {', '.join(users)}. Give them another provider first.")
    return {"custom_providers": {provider: None}}


def without_moved_keys(
    before: Mapping[str, object], patch: Mapping[str, object], after: dict[str, object]
) -> dict[str, object]:
    """Remove the key of every provider whose address the patch changes without also sending a key."""
    moved = [name for name in _moved(before, after) if not _is_sent(_field(patch, name, "api_key"))]
    if not moved:
        return after
    providers = dict(object_at(after, _PROVIDERS))
    for name in moved:
        providers[name] = {key: value for key, value in object_at(providers, name).items() if key != "api_key"}
    return {**after, _PROVIDERS: providers}


def dropped_keys(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """One sentence for every provider that lost its key with its address."""
    return tuple(
        f"custom:{name} has another base_url now, so its stored api_key was removed. Send api_key again if the new "
        "address should get it."
        for name in _moved(before, after)
        if _field(before, name, "api_key") and not _field(after, name, "api_key")
    )


def _moved(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return [
        name
        for name in object_at(after, _PROVIDERS)
        if _field(before, name, "base_url") and _address(before, name) != _address(after, name)
    ]


def _address(raw: Mapping[str, object], name: str) -> str:
    return str(_field(raw, name, "base_url")).rstrip("/")


def _is_sent(key: object) -> bool:
    return isinstance(key, str) and not key.startswith(MASK)


def _field(raw: Mapping[str, object], name: str, field: str) -> object:
    return object_at(raw, _PROVIDERS, name).get(field)


def no_agent(agent: str) -> NotFound:
    return NotFound(f"There is no agent @{agent}. List the agents to see their names.")


def _check(section: str, name: str, fields: Mapping[str, object], *, is_new: bool) -> None:
    title = fields.get("name")
    if isinstance(title, str) and not title.strip():
        raise InvalidInput(f"The name of {name} is empty. Leave it out to keep the current one.")
    missing = [field for field in _REQUIRED[section] if is_new and not fields.get(field)]
    if missing:
        raise InvalidInput(f"There is no {_NOUNS[section]} {name} yet, and a new one needs {' and '.join(missing)}.")


def _teams_without(raw: Mapping[str, object], agent: str) -> tuple[Patch, dict[str, str]]:
    patch: Patch = {}
    leaders: dict[str, str] = {}
    for team, fields in section_of(raw, "teams").items():
        listed = fields.get("agents")
        members = list(dict.fromkeys(listed)) if isinstance(listed, list) else []
        if agent not in members:
            continue
        rest = [member for member in members if member != agent]
        if not rest:
            raise Conflict(f"@{agent} is the only member of team {team}. Delete the team, or add another member first.")
        patch[team] = changes = {"agents": rest}
        if fields.get("leader_agent") == agent:
            leaders[team] = _next_after(agent, members)
            patch[team] = {**changes, "leader_agent": leaders[team]}
    return patch, leaders


def _next_after(agent: str, members: list[str]) -> str:
    return members[(members.index(agent) + 1) % len(members)]
