"""Where an agent may work, and where its instructions may come from. Links are resolved before paths are compared."""

import os
from functools import cache
from pathlib import Path
from typing import Final

from tinyagi.domain.ids import AgentId
from tinyagi.settings.agent_setup import NotConfigured, agent_setup
from tinyagi.settings.home import Home
from tinyagi.settings.model import Settings

_WITH_ALL_INSIDE: Final = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/snap", "/sys"),
    *("/usr/bin", "/usr/include", "/usr/lib", "/usr/libexec", "/usr/sbin", "/usr/share"),
    *("/usr/local/bin", "/usr/local/etc", "/usr/local/lib", "/usr/local/sbin"),
    *("/var/log", "/var/spool", "/System", "/Library"),
)
_ITSELF: Final = (
    *("/", "/home", "/media", "/mnt", "/opt", "/private", "/root", "/srv", "/tmp"),  # noqa: S108 - compared with, never written to
    *("/usr", "/usr/local", "/var", "/var/cache", "/var/lib", "/Users", "/Applications"),
)
"""Shared folders: refused themselves, though folders inside them may belong to a user."""
_PRIVATE: Final = (".aws", ".azure", ".claude", ".codex", ".config", ".docker", ".gnupg", ".kube", ".ssh")
"""Folders of the user's home that hold keys and logins."""
_TEXTS: Final = frozenset({".md", ".txt"})
"""The home's own files, such as keys and databases, have other suffixes."""


def place_problems(settings: Settings, home: Home) -> list[str]:
    """One sentence for every agent's folder or prompt_file that must not be used."""
    problems = []
    for name, agent in settings.agents.items():
        try:
            setup = agent_setup(settings, AgentId(name), home)
        except NotConfigured:
            # The agent has no folder yet; its run reports what is missing.
            continue
        if problem := workspace_problem(setup.workspace, home):
            setting = f"agents.{name}.working_directory" if agent.working_directory else "workspace.path"
            problems.append(f"{setting}: {problem}")
        if setup.prompt_file and (problem := prompt_file_problem(setup.prompt_file, setup.workspace, home)):
            problems.append(f"agents.{name}.prompt_file: {problem}")
    return problems


def workspace_problem(folder: Path, home: Home) -> str | None:
    """Why no agent may work in the folder, with the remedy; None when it is allowed."""
    real = _real(folder)
    if _real(home.path).is_relative_to(real):
        reason = f"holds {home.path} with its keys"
    elif any(real.is_relative_to(_real(place)) for place in _own_folders(home)):
        reason = "is one of TinyAGI's own folders"
    elif real == _real(Path("~").expanduser()):
        reason = "is your home folder"
    elif any(real.is_relative_to(_real(Path("~", name).expanduser())) for name in _PRIVATE):
        reason = "holds your keys and logins"
    elif real in _system(_ITSELF) or any(real.is_relative_to(place) for place in _system(_WITH_ALL_INSIDE)):
        reason = "belongs to the system"
    else:
        return None
    return f"{folder} {reason}; choose a folder for agents, such as ~/tinyagi-workspace/coder"


def prompt_file_problem(file: Path, workspace: Path, home: Home) -> str | None:
    """Why the file may not be an agent's instructions, with the remedy; None when it is allowed."""
    real = _real(file)
    if real.is_relative_to(_real(workspace)):
        return None
    if real.is_relative_to(_real(home.path)) and real.suffix in _TEXTS:
        return None
    return f"{file} is neither in the agent's workspace nor a .md or .txt file in {home.path}; copy it there"


def _own_folders(home: Home) -> tuple[Path, ...]:
    return home.logs, home.files, home.channels, home.chats, home.plugins, home.backups, home.lake


@cache
def _system(places: tuple[str, ...]) -> frozenset[Path]:
    return frozenset(_real(Path(place)) for place in places)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
