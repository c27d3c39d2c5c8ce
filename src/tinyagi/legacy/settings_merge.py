"""Merges old settings into the new home: they fill in missing values and never overwrite existing ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tinyagi.legacy.old_home import OldHome
from tinyagi.legacy.old_settings import CompatibleSettings, Raw, fill_missing, translated
from tinyagi.legacy.plan import PlanPart, Skipped
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings, WorkspaceSettings
from tinyagi.settings.parse import parse_settings
from tinyagi.settings.settings_file import SettingsFile


@dataclass(frozen=True, slots=True)
class SettingsPlan:
    settings: Settings
    """The settings after the import."""
    raw: Mapping[str, object] | None = field(repr=False)
    """None when the file stays unchanged."""
    parts: tuple[PlanPart, ...]
    conflicts: tuple[str, ...]


def plan_settings(old: OldHome, home: Home) -> SettingsPlan:
    """Plan the merged settings; raise InvalidSettings when one of the two files is not valid."""
    raw = old.settings()
    in_place = old.path == home.path
    stored = None if in_place else SettingsFile(home).read()
    if raw is None:
        return SettingsPlan(parse_settings({}) if stored is None else stored.settings, None, (), ())
    if in_place or stored is None:
        fitting = CompatibleSettings(translated(raw, is_tinyclaw=old.is_tinyclaw))
        changed = None if in_place and fitting.raw == raw else fitting.raw
        names = [] if in_place else _names(fitting.raw)
        there = len(_names(fitting.raw)) if in_place else 0
        return SettingsPlan(parse_settings(fitting.raw), changed, _settings_parts(names, fitting.skipped, there), ())
    target = stored.raw
    without, clashes = _without_clashes(translated(raw, is_tinyclaw=old.is_tinyclaw), target)
    fitting = CompatibleSettings(without)
    _keep_workspace(fitting.raw, target)
    result, taken, conflicts = fill_missing(target, fitting.raw)
    there = len(_names(fitting.raw)) - len(taken) - len(conflicts)
    parts = _settings_parts(taken, [*clashes, *fitting.skipped], there)
    return SettingsPlan(parse_settings(result), result if taken else None, parts, tuple(conflicts))


def _without_clashes(old: Raw, target: Mapping[str, object]) -> tuple[Raw, list[Skipped]]:
    """Skip agents whose id is a team's in the new home, and teams whose id is an agent's."""
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
        # A home with agents already has a default agent.
        result.pop("default_agent", None)
    return result, skipped


def _keep_workspace(old: Raw, target: Mapping[str, object]) -> None:
    """When the new home has its own workspace, imported agents keep their old folders."""
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
    return fill_missing({}, raw)[1]


def _settings_parts(taken: list[str], skipped: list[Skipped], there: int) -> tuple[PlanPart, ...]:
    """One part for agents, one for teams, and one for all other settings."""
    parts = []
    for section in ("agents", "teams"):
        names = tuple(name.split(".")[1] for name in taken if name.startswith(f"{section}."))
        left = tuple(one for one in skipped if one.name.startswith(f"{section}."))
        parts.append(PlanPart(section, taken=len(names), skipped=left, names=names))
    names = tuple(name for name in taken if not name.startswith(("agents.", "teams.")))
    left = tuple(one for one in skipped if not one.name.startswith(("agents.", "teams.")))
    return (PlanPart("settings", len(names), max(there, 0), left, names), *parts)
