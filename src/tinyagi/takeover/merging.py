"""What becomes of the settings: the old ones fill the new home, and never overwrite what it has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tinyagi.settings.document import Document
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings, WorkspaceSettings
from tinyagi.settings.parse import parse
from tinyagi.takeover.fitting import Fitting, Raw, filled
from tinyagi.takeover.original import OldHome
from tinyagi.takeover.parts import Part, Skipped
from tinyagi.takeover.translate import translated


@dataclass(frozen=True, slots=True)
class SettingsPlan:
    settings: Settings
    """As they will be."""
    raw: Mapping[str, object] | None = field(repr=False)
    """None when the file stays as it is."""
    parts: tuple[Part, ...]
    conflicts: tuple[str, ...]


def plan_settings(old: OldHome, home: Home) -> SettingsPlan:
    """Raise InvalidSettings when one of the two files cannot be used; nothing is changed then."""
    raw = old.settings()
    in_place = old.path == home.path
    stored = None if in_place else Document(home).read()
    if raw is None:
        return SettingsPlan(parse({}) if stored is None else stored.settings, None, (), ())
    if in_place or stored is None:
        fitting = Fitting(translated(raw, is_tinyclaw=old.is_tinyclaw))
        changed = None if in_place and fitting.raw == raw else fitting.raw
        names = [] if in_place else _names(fitting.raw)
        there = len(_names(fitting.raw)) if in_place else 0
        return SettingsPlan(parse(fitting.raw), changed, _parts(names, fitting.skipped, there), ())
    target = stored.raw
    without, clashes = _without_clashes(translated(raw, is_tinyclaw=old.is_tinyclaw), target)
    fitting = Fitting(without)
    _keep_workspace(fitting.raw, target)
    result, taken, conflicts = filled(target, fitting.raw)
    there = len(_names(fitting.raw)) - len(taken) - len(conflicts)
    parts = _parts(taken, [*clashes, *fitting.skipped], there)
    return SettingsPlan(parse(result), result if taken else None, parts, tuple(conflicts))


def patch(before: Mapping[str, object], after: Mapping[str, object]) -> Raw:
    """The merge patch that leads from one to the other."""
    result: Raw = {name: None for name in before if name not in after}
    for name, value in after.items():
        stored = before.get(name)
        if isinstance(value, Mapping) and isinstance(stored, Mapping):
            inner = patch(stored, value)
            if inner:
                result[name] = inner
        elif stored != value:
            result[name] = value
    return result


def _without_clashes(old: Raw, target: Mapping[str, object]) -> tuple[Raw, list[Skipped]]:
    """An agent and a team cannot share an id, whichever home they come from."""
    result = dict(old)
    skipped = []
    for section, other in (("agents", "teams"), ("teams", "agents")):
        things, taken = old.get(section), target.get(other)
        if isinstance(things, Mapping) and isinstance(taken, Mapping):
            clashing = [name for name in things if name in taken]
            skipped += [
                Skipped(f"{section}.{name}", f"the new home has this id among its {other}") for name in clashing
            ]
            result[section] = {name: thing for name, thing in things.items() if name not in clashing}
    if target.get("agents"):
        # Who answers what names nobody is settled where there are agents.
        result.pop("default_agent", None)
    return result, skipped


def _keep_workspace(old: Raw, target: Mapping[str, object]) -> None:
    """Where the new home has a workspace of its own, agents go on in the folders they know."""
    known = _workspace(target)
    before = _workspace(old) or WorkspaceSettings().path
    agents = old.get("agents")
    if not known or known == before or not isinstance(agents, dict):
        return
    for name, agent in agents.items():
        agent["working_directory"] = str(Path(before) / (agent.get("working_directory") or name))


def _workspace(raw: Mapping[str, object]) -> str:
    workspace = raw.get("workspace")
    path = workspace.get("path") if isinstance(workspace, Mapping) else None
    return path if isinstance(path, str) else ""


def _names(raw: Mapping[str, object]) -> list[str]:
    return filled({}, raw)[1]


def _parts(taken: list[str], skipped: list[Skipped], there: int) -> tuple[Part, ...]:
    """One for the agents, one for the teams, and one for all that is no thing with a name."""
    parts = []
    for section in ("agents", "teams"):
        names = tuple(name.split(".")[1] for name in taken if name.startswith(f"{section}."))
        left = tuple(one for one in skipped if one.name.startswith(f"{section}."))
        parts.append(Part(section, taken=len(names), skipped=left, names=names))
    names = tuple(name for name in taken if not name.startswith(("agents.", "teams.")))
    left = tuple(one for one in skipped if not one.name.startswith(("agents.", "teams.")))
    return (Part("settings", len(names), max(there, 0), left, names), *parts)
