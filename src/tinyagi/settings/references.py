"""What refers to what in the settings: ids, providers, members of teams.

Looks at the JSON and not at the types, so that its findings stand in one list with those of the types.
"""

from collections.abc import Iterator, Mapping

from tinyagi.domain.ids import is_valid_id
from tinyagi.settings.model import CUSTOM, DEFAULT_AGENT, PROVIDERS, Harness
from tinyagi.settings.secrets import shown


def reference_problems(raw: Mapping[str, object]) -> list[str]:
    """Return one sentence for everything that is misnamed or leads nowhere."""
    return [*_ids(raw), *_default_agent(raw), *_providers(raw), *_wires(raw), *_teams(raw)]


def _ids(raw: Mapping[str, object]) -> Iterator[str]:
    for section in ("agents", "teams", "custom_providers"):
        for name in _object(raw, section):
            if not is_valid_id(name):
                yield (
                    f"{section}.{name}: {name!r} is no id; use up to 64 small letters, digits, - and _, "
                    "a letter or digit first"
                )
    for name in _object(raw, "teams"):
        if name in _agents(raw):
            yield f"teams.{name}: an agent has this id already; give the team another one"


def _default_agent(raw: Mapping[str, object]) -> Iterator[str]:
    name = raw.get("default_agent")
    if isinstance(name, str) and name not in _agents(raw):
        yield f"default_agent: there is no agent {shown(name)}; use one of {_listed(_agents(raw))}"


def _providers(raw: Mapping[str, object]) -> Iterator[str]:
    named = {"models.provider": _object(raw, "models").get("provider")}
    for agent in _object(raw, "agents"):
        named[f"agents.{agent}.provider"] = _object(raw, "agents", agent).get("provider")
    custom = [f"{CUSTOM}{name}" for name in _object(raw, "custom_providers")]
    for where, provider in named.items():
        if not isinstance(provider, str) or provider in PROVIDERS or provider in custom:
            continue
        if provider.startswith(CUSTOM):
            yield f"{where}: {shown(provider)} is not in custom_providers; add it there or use {_listed(PROVIDERS)}"
        else:
            yield f"{where}: {shown(provider)} is no provider; use {_listed([*PROVIDERS, *custom])}"


def _wires(raw: Mapping[str, object]) -> Iterator[str]:
    for name in _object(raw, "custom_providers"):
        provider = _object(raw, "custom_providers", name)
        if provider.get("wire") is not None and provider.get("harness") in {Harness.CLAUDE, Harness.CODEX}:
            yield f"custom_providers.{name}.wire: only harness 'api' has a choice of wires; leave it out"


def _teams(raw: Mapping[str, object]) -> Iterator[str]:
    agents = _agents(raw)
    for name in _object(raw, "teams"):
        team = _object(raw, "teams", name)
        listed = team.get("agents")
        if not isinstance(listed, list):
            continue
        for member in listed:
            if isinstance(member, str) and member not in agents:
                yield f"teams.{name}.agents: there is no agent {shown(member)}; use some of {_listed(agents)}"
        leader = team.get("leader_agent")
        if isinstance(leader, str) and leader not in listed:
            yield f"teams.{name}.leader_agent: {shown(leader)} is not a member; use one of teams.{name}.agents"


def _agents(raw: Mapping[str, object]) -> Mapping[str, object]:
    return _object(raw, "agents") or {DEFAULT_AGENT: {}}


def _object(raw: Mapping[str, object], *path: str) -> Mapping[str, object]:
    """What stands there, or nothing when it is no object: that is for the types to say."""
    found: object = raw
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _listed(names: Mapping[str, object] | tuple[str, ...] | list[str]) -> str:
    return ", ".join(names)
