"""Renders an agent's system prompt from templates, teams, memory and its owner's texts, and caches it.

The owner's texts appear exactly as they are.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from tinyagi.agents.memory import MemoryScan, index_of, scan
from tinyagi.agents.workspace import Workspace
from tinyagi.agents.workspace_files import PromptFileError, WorkspaceError, fill, read_text, template
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.instants import millis
from tinyagi.domain.routing import Roster, Team
from tinyagi.domain.texts import clean, one_line

_MAX_NAME: Final = 200
_NO_MEMORY: Final = "Your memory is empty so far."

# File systems have coarse timestamps: two changes within this time may share one.
_SETTLED_AFTER: Final = timedelta(seconds=2)

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Teammate:
    id: AgentId
    name: str
    is_leader: bool = False


@dataclass(frozen=True, slots=True)
class Membership:
    """A team as one of its members sees it."""

    id: TeamId
    name: str
    teammates: tuple[Teammate, ...]
    is_led_by_me: bool = False


@dataclass(frozen=True, slots=True)
class AgentProfile:
    """Everything that a system prompt is made of."""

    agent: AgentId
    name: str
    workspace: Path
    files: Path
    """The folder for attachments from people."""
    teams: tuple[Membership, ...] = ()
    memory_index: str = ""
    soul: str = ""
    owner_text: str = ""
    extra: str = ""


@dataclass(frozen=True, slots=True)
class ProfileTexts:
    """The texts that the owner and the agent wrote."""

    owner_text: str
    soul: str
    extra: str


class SystemPromptCache:
    """The latest system prompt of each agent. Not safe for threads that ask for the same agent at once."""

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._clock_ns = clock_ns
        self._prompts: dict[AgentId, tuple[_Sources, str]] = {}

    def prompt_for(self, profile: AgentProfile, *, prompt_file: Path | None = None, system_prompt: str = "") -> str:
        """Return the profile's system prompt, with texts and memory index from the workspace."""
        workspace = Workspace(profile.workspace)
        # Take the stamps before reading: a change in between then shows as a difference next time.
        sources = _sources(profile, workspace, prompt_file, system_prompt)
        cached = self._prompts.get(profile.agent)
        if cached is not None and cached[0] == sources:
            return cached[1]
        prompt = _render(sources, workspace)
        if self._clock_ns() - sources.newest_ns() > millis(_SETTLED_AFTER) * 1_000_000:
            self._prompts[profile.agent] = sources, prompt
        return prompt


@dataclass(frozen=True, slots=True)
class _Sources:
    """The inputs of a prompt; equal sources make equal prompts."""

    profile: AgentProfile
    prompt_file: Path | None
    system_prompt: str
    stamps: tuple[_Stamp | None, ...]
    memory: MemoryScan

    def newest_ns(self) -> int:
        stamped = (stamp[0] for stamp in self.stamps if stamp is not None)
        return max((*stamped, *(file.changed_at_ns for file in self.memory.files)), default=0)


def _sources(profile: AgentProfile, workspace: Workspace, prompt_file: Path | None, system_prompt: str) -> _Sources:
    texts = [workspace.owner_text, workspace.soul]
    if prompt_file is not None:
        texts.append(workspace.path / prompt_file)
    return _Sources(profile, prompt_file, system_prompt, tuple(map(_stamp, texts)), scan(workspace.memory))


def _render(sources: _Sources, workspace: Workspace) -> str:
    texts = read_profile_texts(workspace, sources.prompt_file, sources.system_prompt)
    return system_prompt(
        replace(
            sources.profile,
            memory_index=index_of(sources.memory),
            owner_text=texts.owner_text,
            soul=texts.soul,
            extra=texts.extra,
        )
    )


def _stamp(path: Path) -> _Stamp | None:
    try:
        # A program can set a file's modification time, but not its change time.
        status = path.stat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino


def system_prompt(profile: AgentProfile) -> str:
    """Return the whole system prompt; the same profile gives the same text."""
    name = _name(profile.name, profile.agent)
    values = {
        "agent": profile.agent,
        "name": name,
        "workspace": str(profile.workspace),
        "files": str(profile.files),
        "teams": "\n\n".join(_team(team) for team in profile.teams),
        "memory": profile.memory_index or _NO_MEMORY,
    }
    parts = [fill(template("prompt/identity.md"), values)]
    if profile.teams:
        parts.append(fill(template("prompt/team.md"), values))
    parts.append(fill(template("prompt/work.md"), values))
    parts.append(_section("Who you are, from .tinyagi/SOUL.md", profile.soul))
    parts.append(_section("What your owner tells you, from AGENTS.md", profile.owner_text))
    parts.append(_section("What your owner tells you in the settings", profile.extra))
    # Names and paths come from outside, too: `clean` removes characters that no program accepts.
    return clean("\n\n".join(part.strip() for part in parts if part) + "\n")


def memberships(agent: AgentId, roster: Roster) -> tuple[Membership, ...]:
    """Return the agent's teams, in the order of the roster."""
    return tuple(_membership(agent, team, roster) for team in roster.teams.values() if agent in team.agents)


def read_profile_texts(workspace: Workspace, prompt_file: Path | None = None, system_prompt: str = "") -> ProfileTexts:
    """Read AGENTS.md, SOUL.md and the prompt_file, which takes precedence over the system_prompt of the settings.

    AGENTS.md and SOUL.md may be missing; a prompt_file must exist. A relative one is in the workspace.
    """
    extra = system_prompt if prompt_file is None else _read_prompt_file(workspace.path / prompt_file)
    return ProfileTexts(read_text(workspace.owner_text) or "", read_text(workspace.soul) or "", extra)


def _read_prompt_file(path: Path) -> str:
    try:
        text = read_text(path)
    except WorkspaceError as error:
        reason = error.__cause__.strerror if isinstance(error.__cause__, OSError) else None
        raise PromptFileError(path, f"cannot be read ({reason})") from error
    if text is None:
        raise PromptFileError(path, "does not exist")
    return text


def _membership(agent: AgentId, team: Team, roster: Roster) -> Membership:
    names = {member: roster.agents[member].name for member in team.agents if member in roster.agents}
    teammates = tuple(
        Teammate(member, names.get(member, member), member == team.leader) for member in team.teammates_of(agent)
    )
    return Membership(team.id, team.name, teammates, team.leader == agent)


def _team(team: Membership) -> str:
    title = f"## {_name(team.name, team.id)} (`#{team.id}`)"
    role = [f"You lead this team: what people send to `@{team.id}` comes to you."] if team.is_led_by_me else []
    lines = [_teammate(teammate) for teammate in team.teammates] or ["- no other members yet"]
    return "\n".join((title, "", *role, *([""] if role else []), *lines))


def _teammate(teammate: Teammate) -> str:
    leads = ", leads the team" if teammate.is_leader else ""
    return f"- `@{teammate.id}` — {_name(teammate.name, teammate.id)}{leads}"


def _section(title: str, text: str) -> str:
    return f"# {title}\n\n{text.strip()}" if text.strip() else ""


def _name(name: str, fallback: str) -> str:
    return one_line(name, _MAX_NAME) or fallback
