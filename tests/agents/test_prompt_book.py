"""A prompt is made again when, and only when, something it is made of changed."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tinyagi.agents import system_prompt as prompt_book
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
    """What was rendered so far."""
    rendered: list[AgentProfile] = []

    def render(profile: AgentProfile) -> str:
        rendered.append(profile)
        return system_prompt(profile)

    monkeypatch.setattr(prompt_book, "system_prompt", render)
    return rendered


@pytest.fixture
def book() -> SystemPromptCache:
    """A book of a minute later, when every change so far has settled."""
    return SystemPromptCache(lambda: time.time_ns() + MINUTE_NS)


def test_a_prompt_is_filled_from_the_workspace(
    book: SystemPromptCache, profile: AgentProfile, workspace: Workspace
) -> None:
    workspace.owner_text.write_text("The owner's words.")
    (workspace.memory / "ada.md").write_text("---\nname: Ada\nsummary: leads\n---\n")

    prompt = book.prompt_for(profile, system_prompt="More words.")

    assert "- **Ada** — leads" in prompt
    assert "The owner's words." in prompt
    assert prompt.endswith("More words.\n")


def test_nothing_is_rendered_again_while_nothing_changed(
    book: SystemPromptCache, profile: AgentProfile, renderings: list[AgentProfile]
) -> None:
    first = book.prompt_for(profile)

    assert book.prompt_for(profile) == first
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
def test_a_change_shows_in_the_next_prompt(
    book: SystemPromptCache, profile: AgentProfile, workspace: Workspace, change: Callable[[Workspace], None]
) -> None:
    (workspace.path / "role.md").write_text("role")
    (workspace.memory / "sub").mkdir()
    (workspace.memory / "sub" / "old.md").touch()
    before = book.prompt_for(profile, prompt_file=Path("role.md"))

    change(workspace)

    assert book.prompt_for(profile, prompt_file=Path("role.md")) != before


def test_a_change_of_settings_shows_in_the_next_prompt(book: SystemPromptCache, profile: AgentProfile) -> None:
    before = book.prompt_for(profile)

    assert book.prompt_for(profile, system_prompt="new") != before
    assert book.prompt_for(replace(profile, teams=(Membership(TeamId("dev"), "Dev", ()),))) != before
    assert book.prompt_for(profile) == before


def test_a_fresh_change_is_not_trusted_to_be_the_last(
    profile: AgentProfile, renderings: list[AgentProfile], workspace: Workspace
) -> None:
    book = SystemPromptCache(lambda: workspace.owner_text.stat().st_ctime_ns)

    book.prompt_for(profile)
    book.prompt_for(profile)

    assert len(renderings) == 2


def test_a_fresh_memory_is_not_trusted_to_be_the_last(
    profile: AgentProfile, renderings: list[AgentProfile], workspace: Workspace
) -> None:
    for text in (workspace.owner_text, workspace.soul):
        text.unlink()
    memory = workspace.memory / "ada.md"
    memory.touch()
    book = SystemPromptCache(lambda: memory.stat().st_ctime_ns)

    book.prompt_for(profile)
    book.prompt_for(profile)

    assert len(renderings) == 2


def test_agents_have_pages_of_their_own(
    book: SystemPromptCache, profile: AgentProfile, renderings: list[AgentProfile]
) -> None:
    other = replace(profile, agent=AgentId("tester"), name="Tester")

    prompts = [book.prompt_for(one) for one in (profile, other, profile, other)]

    assert prompts[:2] == prompts[2:]
    assert len(renderings) == 2


def test_a_prompt_file_that_goes_away_is_told(
    book: SystemPromptCache, profile: AgentProfile, workspace: Workspace
) -> None:
    (workspace.path / "role.md").write_text("role")
    book.prompt_for(profile, prompt_file=Path("role.md"))
    (workspace.path / "role.md").unlink()

    with pytest.raises(PromptFileError):
        book.prompt_for(profile, prompt_file=Path("role.md"))
