"""Agents, teams and providers in the settings: what to change one means for whatever refers to it.

Makes patches from what is stored, and refuses what would leave somebody without what they need. Writes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tinyagi.domain.errors import Conflict, InvalidInput, NotFound
from tinyagi.settings.model import CUSTOM
from tinyagi.settings.parse import parse

Patch = dict[str, object]

_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "agents": ("name", "provider"),
    "teams": ("name", "agents", "leader_agent"),
    "custom_providers": ("harness", "base_url"),
}
_WORDS: Final[Mapping[str, str]] = {"agents": "agent", "teams": "team", "custom_providers": "provider"}


@dataclass(frozen=True, slots=True)
class Departure:
    """An agent leaves: the patch, and the teams that get another leader by it."""

    patch: Patch
    leaders: Mapping[str, str]


def agents_of(raw: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """The agents as they are stored; without any, the one that counts then."""
    stored = section_of(raw, "agents")
    if stored:
        return stored
    implied = parse({}).agents.items()
    return {name: agent.model_dump(mode="json", exclude_unset=True) for name, agent in implied}


def section_of(raw: Mapping[str, object], name: str) -> dict[str, Mapping[str, object]]:
    """The named objects of a section, as they are stored."""
    return {key: value for key, value in _object(raw, name).items() if isinstance(value, Mapping)}


def with_agent(raw: Mapping[str, object], agent: str, fields: Mapping[str, object]) -> Patch:
    """Add an agent or change its fields; raise InvalidInput."""
    everybody = agents_of(raw)
    _check("agents", agent, fields, is_new=agent not in everybody)
    # The agent that counts while none is stored would be gone as soon as one is.
    implied = {name: value for name, value in everybody.items() if name not in _object(raw, "agents")}
    return {"agents": {**implied, agent: {**implied.get(agent, {}), **fields}}}


def with_team(raw: Mapping[str, object], team: str, fields: Mapping[str, object]) -> Patch:
    """Add a team or change its fields; raise InvalidInput."""
    _check("teams", team, fields, is_new=team not in section_of(raw, "teams"))
    return {"teams": {team: dict(fields)}}


def with_provider(raw: Mapping[str, object], provider: str, fields: Mapping[str, object]) -> Patch:
    """Add a provider or change its fields; raise InvalidInput."""
    _check("custom_providers", provider, fields, is_new=provider not in section_of(raw, "custom_providers"))
    return {"custom_providers": {provider: dict(fields)}}


def without_agent(raw: Mapping[str, object], agent: str) -> Departure:
    """Remove an agent from everything that names it; raise NotFound, and Conflict when it cannot be done without."""
    everybody = agents_of(raw)
    if agent not in everybody:
        raise no_agent(agent)
    if len(everybody) == 1:
        raise Conflict(f"@{agent} is the last agent. Add another one before you delete it.")
    teams, leaders = _teams_without(raw, agent)
    patch: Patch = {"agents": {agent: None}}
    if teams:
        patch["teams"] = teams
    if raw.get("default_agent") == agent:
        patch["default_agent"] = None
    sticky = [chat for chat, name in _object(raw, "channels", "defaults").items() if _sticks_to(name) == agent]
    if sticky:
        patch["channels"] = {"defaults": dict.fromkeys(sticky)}
    if agent in _object(raw, "limits", "agents"):
        patch["limits"] = {"agents": {agent: None}}
    return Departure(patch, leaders)


def _sticks_to(stored: object) -> object:
    """The agent of a chat, as we store it or as the original did."""
    return stored.get("agentId") if isinstance(stored, Mapping) else stored


def without_team(raw: Mapping[str, object], team: str) -> Patch:
    """Remove a team; its agents stay. Raise NotFound."""
    if team not in section_of(raw, "teams"):
        raise NotFound(f"There is no team {team}. List the teams to see which there are.")
    patch: Patch = {"teams": {team: None}}
    if team in _object(raw, "limits", "teams"):
        patch["limits"] = {"teams": {team: None}}
    return patch


def without_provider(raw: Mapping[str, object], provider: str) -> Patch:
    """Remove a provider; raise NotFound, and Conflict when somebody uses it."""
    if provider not in section_of(raw, "custom_providers"):
        raise NotFound(f"There is no provider {provider}. List the custom providers to see which there are.")
    name = f"{CUSTOM}{provider}"
    users = [f"@{agent}" for agent, fields in section_of(raw, "agents").items() if fields.get("provider") == name]
    if _object(raw, "models").get("provider") == name:
        users.append("models.provider")
    if users:
        raise Conflict(f"{name} is still used by {', '.join(users)}. Give them another provider first.")
    return {"custom_providers": {provider: None}}


def no_agent(agent: str) -> NotFound:
    return NotFound(f"There is no agent @{agent}. List the agents to see which there are.")


def _check(section: str, name: str, fields: Mapping[str, object], *, is_new: bool) -> None:
    title = fields.get("name")
    if isinstance(title, str) and not title.strip():
        raise InvalidInput(f"The name of {name} is empty. Leave it out to keep the one it has.")
    missing = [field for field in _NEEDED[section] if is_new and not fields.get(field)]
    if missing:
        raise InvalidInput(f"There is no {_WORDS[section]} {name} yet, and a new one needs {' and '.join(missing)}.")


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
            raise Conflict(f"@{agent} is the only member of team {team}. Delete the team, or add somebody to it first.")
        patch[team] = changes = {"agents": rest}
        if fields.get("leader_agent") == agent:
            leaders[team] = _next_after(agent, members)
            patch[team] = {**changes, "leader_agent": leaders[team]}
    return patch, leaders


def _next_after(agent: str, members: list[str]) -> str:
    return members[(members.index(agent) + 1) % len(members)]


def _object(raw: Mapping[str, object], *path: str) -> Mapping[str, object]:
    found: object = raw
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
