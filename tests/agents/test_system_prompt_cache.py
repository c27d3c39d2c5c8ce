"""A prompt is rendered again only when one of its sources has changed."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tinyagi.agents import system_prompt as module
from tinyagi.agents.system_prompt import AgentProfile, Membership, SystemPromptCache, system_prompt
from tinyagi.agents.workspace import Workspace
from tinyagi.agents.workspace_files import PromptFileError
from tinyagi.domain.ids import AgentId, TeamId

MINUTE_NS = 60_000_000_000


@pytest.fixture
def profile(workspace: Workspace) -> AgentProfile:
    return AgentProfile(AgentId("coder"), "Coder", workspace.path, Path("/files"))


@pytest.fixture
def renderings(monkeypatch: pytest.MonkeyPatch) -> list[AgentProfile]:
    """The profiles rendered so far."""
    rendered: list[AgentProfile] = []

    def render(profile: AgentProfile) -> str:
        rendered.append(profile)
        return system_prompt(profile)

    monkeypatch.setattr(module, "system_prompt", render)
    return rendered


@pytest.fixture
def cache() -> SystemPromptCache:
    """A cache with a clock one minute ahead, so that no change counts as recent."""
    return SystemPromptCache(lambda: time.time_ns() + MINUTE_NS)


def test_a_prompt_is_filled_from_the_workspace(
    cache: SystemPromptCache, profile: AgentProfile, workspace: Workspace
) -> None:
    workspace.owner_text.write_text("The owner's words.")
    (workspace.memory / "ada.md").write_text("---\nname: Ada\nsummary: leads\n---\n")

    prompt = cache.prompt_for(profile, system_prompt="More words.")

    assert "- **Ada** — leads" in prompt
    assert "The owner's words." in prompt
    assert prompt.endswith("More words.\n")


def test_an_unchanged_prompt_is_not_rendered_again(
    cache: SystemPromptCache, profile: AgentProfile, renderings: list[AgentProfile]
) -> None:
    first = cache.prompt_for(profile)

    assert cache.prompt_for(profile) == first
    assert len(renderings) == 1


def change_owner_text(workspace: Workspace) -> None:
    workspace.owner_text.write_text("changed")


def change_soul(workspace: Workspace) -> None:
    workspace.soul.write_text("changed")


def change_prompt_file(workspace: Workspace) -> None:
    (workspace.path / "role.md").write_text("changed")


def add_memory(workspace: Workspace) -> None:
    (workspace.memory / "new.md").touch()


def change_memory(workspace: Workspace) -> None:
    (workspace.memory / "sub" / "old.md").write_text("---\nname: changed\n---\n")


def forget_memory(workspace: Workspace) -> None:
    (workspace.memory / "sub" / "old.md").unlink()


@pytest.mark.parametrize(
    "change", [change_owner_text, change_soul, change_prompt_file, add_memory, change_memory, forget_memory]
)
def test_a_changed_file_changes_the_next_prompt(
    cache: SystemPromptCache, profile: AgentProfile, workspace: Workspace, change: Callable[[Workspace], None]
) -> None:
    (workspace.path / "role.md").write_text("role")
    (workspace.memory / "sub").mkdir()
    (workspace.memory / "sub" / "old.md").touch()
    before = cache.prompt_for(profile, prompt_file=Path("role.md"))

    change(workspace)

    assert cache.prompt_for(profile, prompt_file=Path("role.md")) != before


def test_changed_settings_change_the_next_prompt(cache: SystemPromptCache, profile: AgentProfile) -> None:
    before = cache.prompt_for(profile)

    assert cache.prompt_for(profile, system_prompt="new") != before
    assert cache.prompt_for(replace(profile, teams=(Membership(TeamId("dev"), "Dev", ()),))) != before
    assert cache.prompt_for(profile) == before


def test_a_prompt_with_a_recent_file_is_not_cached(
    profile: AgentProfile, renderings: list[AgentProfile], workspace: Workspace
) -> None:
    cache = SystemPromptCache(lambda: workspace.owner_text.stat().st_ctime_ns)

    cache.prompt_for(profile)
    cache.prompt_for(profile)

    assert len(renderings) == 2


def test_a_prompt_with_a_recent_memory_is_not_cached(
    profile: AgentProfile, renderings: list[AgentProfile], workspace: Workspace
) -> None:
    for text in (workspace.owner_text, workspace.soul):
        text.unlink()
    memory = workspace.memory / "ada.md"
    memory.touch()
    cache = SystemPromptCache(lambda: memory.stat().st_ctime_ns)

    cache.prompt_for(profile)
    cache.prompt_for(profile)

    assert len(renderings) == 2


def test_prompts_are_cached_per_agent(
    cache: SystemPromptCache, profile: AgentProfile, renderings: list[AgentProfile]
) -> None:
    other = replace(profile, agent=AgentId("tester"), name="Tester")

    prompts = [cache.prompt_for(one) for one in (profile, other, profile, other)]

    assert prompts[:2] == prompts[2:]
    assert len(renderings) == 2


def test_a_deleted_prompt_file_is_reported(
    cache: SystemPromptCache, profile: AgentProfile, workspace: Workspace
) -> None:
    (workspace.path / "role.md").write_text("role")
    cache.prompt_for(profile, prompt_file=Path("role.md"))
    (workspace.path / "role.md").unlink()

    with pytest.raises(PromptFileError):
        cache.prompt_for(profile, prompt_file=Path("role.md"))
