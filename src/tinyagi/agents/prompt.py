"""An agent's system prompt: our instructions, filled in, and then its owner's own words exactly as they are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.agents.errors import PromptFileError, WorkspaceError
from tinyagi.agents.templates import fill, template
from tinyagi.agents.texts import read_text
from tinyagi.agents.workspace import Workspace
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.teams import Roster, Team
from tinyagi.domain.texts import clean, one_line

_MAX_NAME: Final = 200
_NO_MEMORY: Final = "Your memory is empty so far."


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
class Profile:
    """All that a system prompt is made of."""

    agent: AgentId
    name: str
    workspace: Path
    files: Path
    """Where attachments of people are put."""
    teams: tuple[Membership, ...] = ()
    memory_index: str = ""
    soul: str = ""
    owner_text: str = ""
    extra: str = ""


@dataclass(frozen=True, slots=True)
class ProfileTexts:
    """What owner and agent wrote themselves."""

    owner_text: str
    soul: str
    extra: str


def system_prompt(profile: Profile) -> str:
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
    # Names and paths come from outside too: what no program can be given is taken out of the whole.
    return clean("\n\n".join(part.strip() for part in parts if part) + "\n")


def memberships(agent: AgentId, roster: Roster) -> tuple[Membership, ...]:
    """Return the teams of the agent, in the order of the roster."""
    return tuple(_membership(agent, team, roster) for team in roster.teams.values() if agent in team.agents)


def read_profile_texts(workspace: Workspace, prompt_file: Path | None = None, system_prompt: str = "") -> ProfileTexts:
    """Read AGENTS.md, SOUL.md and the prompt_file, which counts before the system_prompt of the settings.

    A missing AGENTS.md or SOUL.md is fine; a prompt_file must be there. A relative one lies in the workspace.
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
    lines = [_teammate(teammate) for teammate in team.teammates] or ["- nobody else so far"]
    return "\n".join((title, "", *role, *([""] if role else []), *lines))


def _teammate(teammate: Teammate) -> str:
    leads = ", leads the team" if teammate.is_leader else ""
    return f"- `@{teammate.id}` — {_name(teammate.name, teammate.id)}{leads}"


def _section(title: str, text: str) -> str:
    return f"# {title}\n\n{text.strip()}" if text.strip() else ""


def _name(name: str, fallback: str) -> str:
    return one_line(name, _MAX_NAME) or fallback
