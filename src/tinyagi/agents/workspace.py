"""An agent's folder: its paths, its preparation, its reset flag. Existing files are never overwritten."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.agents.skills import DefaultSkill, SkillSync, default_skills, sync_skills
from tinyagi.agents.workspace_files import (
    NO_LINKS_HERE,
    WorkspaceError,
    as_workspace_error,
    create_text,
    fill,
    read_head,
    replace_text,
    template,
)
from tinyagi.domain.routing import Agent
from tinyagi.domain.texts import one_line

_LAYOUT: Final = 1
_FOLDERS: Final = (".tinyagi", "memory", ".agents", ".agents/skills")
_STARTERS: Final = {"AGENTS.md": "AGENTS.md", "heartbeat.md": "heartbeat.md", ".tinyagi/SOUL.md": "SOUL.md"}


@dataclass(frozen=True, slots=True)
class Workspace:
    """The paths in an agent's folder."""

    path: Path
    synced: SkillSync | None = None
    """The result of the sync of default skills; None when the folder was complete and no sync was needed."""

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
    """Create missing files and folders in the agent's folder and return its paths; cheap when it is complete.

    With `within`, the folder and everything created in it must be inside that folder after links are resolved. The
    version file, which marks the folder as complete, is written last, so that the next call repairs a half-made folder.
    """
    shipped = default_skills() if skills is None else skills
    version = _version(shipped)
    if within is not None:
        _confine(path, Path(os.path.realpath(within)))
    if read_head(path / ".tinyagi" / "version") == version:
        return Workspace(path)
    bounds = Path(os.path.realpath(path if within is None else within))
    with as_workspace_error(path):
        # The mode is for a new folder only: an existing one may be shared on purpose.
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in _FOLDERS:
        _make_folder(path / name, bounds)
    values = {"agent": agent.id, "name": one_line(agent.name, 200) or agent.id}
    for name, starter in _STARTERS.items():
        create_text(path / name, fill(template(f"workspace/{starter}"), values))
    _link_skills(path / ".claude", bounds)
    synced = sync_skills(path / ".agents" / "skills", shipped)
    replace_text(path / ".tinyagi" / "version", version)
    return Workspace(path, synced)


def is_complete(path: Path) -> bool:
    """True when any version has prepared the folder; only the version file is checked."""
    return os.path.lexists(f"{path}/.tinyagi/version")


def take_reset_flag(path: Path) -> bool:
    """Remove the flag; True for the one caller that removed it."""
    # Every run calls this, and the flag is rare: `lexists` costs less than a failed `unlink`.
    if not os.path.lexists(f"{path}/reset_flag"):
        return False
    flag = path / "reset_flag"
    with as_workspace_error(flag):
        try:
            flag.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
    return True


def _version(skills: Sequence[DefaultSkill]) -> str:
    return "".join((f"layout {_LAYOUT}\n", *(f"{skill.id} {skill.version}\n" for skill in skills)))


def _make_folder(folder: Path, bounds: Path) -> None:
    with as_workspace_error(folder):
        folder.mkdir(exist_ok=True)
    _confine(folder, bounds)


def _confine(folder: Path, bounds: Path) -> None:
    real = Path(os.path.realpath(folder))
    if not real.is_relative_to(bounds):
        raise WorkspaceError(folder, f"leads out of {bounds}, to {real}", "Replace the link with a folder")


def _link_skills(folder: Path, bounds: Path) -> None:
    """Link the skills to the folder where Claude looks for them, unless the owner has set up that folder."""
    with as_workspace_error(folder):
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
