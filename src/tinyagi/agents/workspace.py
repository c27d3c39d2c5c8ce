"""An agent's folder: made once, then the owner's and the agent's. Nothing that is there is ever overwritten."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.agents.errors import WorkspaceError
from tinyagi.agents.skills import DefaultSkill, SkillSync, default_skills, sync
from tinyagi.agents.templates import fill, template
from tinyagi.agents.texts import NO_LINKS_HERE, create_text, explained, read_head, replace_text
from tinyagi.domain.teams import Agent
from tinyagi.domain.texts import one_line

_LAYOUT: Final = 1
_FOLDERS: Final = (".tinyagi", "memory", ".agents", ".agents/skills")
_STARTERS: Final = {"AGENTS.md": "AGENTS.md", "heartbeat.md": "heartbeat.md", ".tinyagi/SOUL.md": "SOUL.md"}


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where an agent works and where its things are."""

    path: Path
    synced: SkillSync | None = None
    """What became of the default skills; None when they were not looked at because nothing is new."""

    @property
    def owner_text(self) -> Path:
        return self.path / "AGENTS.md"

    @property
    def heartbeat(self) -> Path:
        return self.path / "heartbeat.md"

    @property
    def soul(self) -> Path:
        return self.path / ".tinyagi" / "SOUL.md"

    @property
    def memory(self) -> Path:
        return self.path / "memory"

    @property
    def skills(self) -> Path:
        return self.path / ".agents" / "skills"


def prepare(
    path: Path, agent: Agent, *, within: Path | None = None, skills: Sequence[DefaultSkill] | None = None
) -> Workspace:
    """Make what is missing in the agent's folder, and say where things are; cheap when it is complete.

    With `within`, the folder and what we make in it must really lie there, wherever links lead. A version that says
    the folder is complete is written last, so that the next call repairs what a crash left half made.
    """
    shipped = default_skills() if skills is None else skills
    version = _version(shipped)
    if within is not None:
        _confine(path, Path(os.path.realpath(within)))
    if read_head(path / ".tinyagi" / "version") == version:
        return Workspace(path)
    bounds = Path(os.path.realpath(path if within is None else within))
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
    for name in _FOLDERS:
        _make_folder(path / name, bounds)
    values = {"agent": agent.id, "name": one_line(agent.name, 200) or agent.id}
    for name, starter in _STARTERS.items():
        create_text(path / name, fill(template(f"workspace/{starter}"), values))
    _link_skills(path / ".claude", bounds)
    synced = sync(path / ".agents" / "skills", shipped)
    replace_text(path / ".tinyagi" / "version", version)
    return Workspace(path, synced)


def is_complete(path: Path) -> bool:
    """True when the folder was made ready once, by whichever version; a look, not a check."""
    return os.path.lexists(f"{path}/.tinyagi/version")


def take_reset_flag(path: Path) -> bool:
    """Remove the flag; True for the one caller that did it."""
    # Every run asks, and hardly ever is there a flag: a look costs less than a refused removal.
    if not os.path.lexists(f"{path}/reset_flag"):
        return False
    flag = path / "reset_flag"
    with explained(flag):
        try:
            flag.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


def _version(skills: Sequence[DefaultSkill]) -> str:
    return "".join((f"layout {_LAYOUT}\n", *(f"{skill.id} {skill.version}\n" for skill in skills)))


def _make_folder(folder: Path, bounds: Path) -> None:
    with explained(folder):
        folder.mkdir(exist_ok=True)
    _confine(folder, bounds)


def _confine(folder: Path, bounds: Path) -> None:
    real = Path(os.path.realpath(folder))
    if not real.is_relative_to(bounds):
        raise WorkspaceError(folder, f"leads out of {bounds}, to {real}", "Put a folder in the place of the link")


def _link_skills(folder: Path, bounds: Path) -> None:
    """Let Claude find the skills where it looks for them, unless the owner arranged that otherwise."""
    with explained(folder):
        folder.mkdir(exist_ok=True)
        if not Path(os.path.realpath(folder)).is_relative_to(bounds):
            return
        try:
            (folder / "skills").symlink_to("../.agents/skills")
        except FileExistsError:
            return
        except OSError as error:
            if error.errno not in NO_LINKS_HERE:
                raise
