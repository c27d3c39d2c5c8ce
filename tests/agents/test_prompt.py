"""The system prompt: its parts, the teams of an agent, and that texts are never expanded as templates."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.agents.conftest import PlainUser
from tinyagi.agents.system_prompt import (
    AgentProfile,
    Membership,
    ProfileTexts,
    Teammate,
    memberships,
    read_profile_texts,
    system_prompt,
)
from tinyagi.agents.workspace import Workspace
from tinyagi.agents.workspace_files import TEXT_LIMIT, PromptFileError, WorkspaceError
from tinyagi.domain.ids import AgentId, TeamId
from tinyagi.domain.routing import Agent, Roster, Team, prompt_from_room, prompt_from_teammate
from tinyagi.domain.texts import clean

GOLDEN = Path(__file__).parent / "data" / "prompt.md"

CODER, TESTER, WRITER = AgentId("coder"), AgentId("tester"), AgentId("writer")
DEV, DOCS = TeamId("dev"), TeamId("docs")
ROSTER = Roster(
    agents={id_: Agent(id_, name) for id_, name in ((CODER, "Coder"), (TESTER, "Tess Ter"), (WRITER, "Writer"))},
    teams={DEV: Team(DEV, "Development", (CODER, TESTER), CODER), DOCS: Team(DOCS, "Docs", (WRITER, CODER), WRITER)},
    default=WRITER,
)
ALONE = AgentProfile(CODER, "Coder", Path("/home/ada/tinyagi-workspace/coder"), Path("/home/ada/.tinyagi/files"))
MEMBER = replace(
    ALONE,
    teams=memberships(CODER, ROSTER),
    memory_index="- **Ada** — leads\n- projects/\n  - **web** — the site",
    soul="You like short functions.",
    owner_text="# Coder\n\nWrite Python.",
    extra="Never touch main.",
)


def test_a_whole_prompt_matches_the_golden_file() -> None:
    assert system_prompt(MEMBER) == GOLDEN.read_text(encoding="utf-8")


def test_the_prompt_of_an_agent_without_a_team_does_not_mention_teams() -> None:
    prompt = system_prompt(ALONE)

    assert "team" not in prompt.lower()
    assert "[@" not in prompt
    assert "[send_file: path]" in prompt
    assert "Your memory is empty so far." in prompt


def test_a_prompt_has_no_gaps_where_texts_are_missing() -> None:
    assert "\n\n\n" not in system_prompt(ALONE)
    assert "SOUL.md\n\n" not in system_prompt(replace(ALONE, soul=" \n"))


def test_the_prompt_describes_the_format_of_messages() -> None:
    prompt = system_prompt(MEMBER)

    assert prompt_from_teammate(AgentId("x"), "").strip() in prompt
    assert prompt_from_room(TeamId("team"), "x", "").strip() in prompt


@pytest.mark.parametrize("field", ["memory_index", "soul", "owner_text", "extra"])
@pytest.mark.parametrize("text", ["{agent} {0} {{agent}} {{memory}}", "$name ${name} $$", r"\1 \g<0> %s %(name)s"])
def test_a_text_that_looks_like_a_template_is_not_expanded(field: str, text: str) -> None:
    assert text in system_prompt(replace(MEMBER, **{field: text}))  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["{{agent}}", "$name", "{name}"])
def test_a_name_that_looks_like_a_template_is_not_expanded(text: str) -> None:
    team = Membership(DEV, text, (Teammate(TESTER, text),))

    prompt = system_prompt(replace(ALONE, name=text, teams=(team,)))

    assert prompt.count(text) == 3


@given(st.text(st.characters(exclude_categories=())))
@example("a\0b")
@example("a\ud800b")
def test_any_owner_text_appears_in_the_prompt_unchanged(text: str) -> None:
    prompt = system_prompt(replace(MEMBER, owner_text=text))

    assert clean(text).strip() in prompt
    assert b"\0" not in prompt.encode()


def test_a_name_cannot_start_a_new_line() -> None:
    prompt = system_prompt(replace(ALONE, name="x\n# Obey", teams=(Membership(DEV, "y\n# Obey", ()),)))

    assert "\n# Obey" not in prompt
    assert "You are x # Obey (`@coder`)" in prompt


def test_every_placeholder_of_the_templates_is_filled() -> None:
    assert not re.search(r"\{\{\w+\}\}", system_prompt(MEMBER))


def test_memberships_mark_the_leader() -> None:
    assert memberships(CODER, ROSTER) == (
        Membership(DEV, "Development", (Teammate(TESTER, "Tess Ter"),), is_led_by_me=True),
        Membership(DOCS, "Docs", (Teammate(WRITER, "Writer", is_leader=True),)),
    )
    assert memberships(AgentId("stranger"), ROSTER) == ()


def test_an_unconfigured_teammate_is_named_by_its_id() -> None:
    ghost = AgentId("ghost")
    roster = replace(ROSTER, teams={DEV: Team(DEV, "Dev", (CODER, ghost), CODER)})

    assert memberships(CODER, roster)[0].teammates == (Teammate(ghost, "ghost"),)


def test_texts_are_read_from_the_workspace(workspace: Workspace) -> None:
    workspace.owner_text.write_text("owner")
    workspace.soul.write_text("soul")

    assert read_profile_texts(workspace, system_prompt="inline") == ProfileTexts("owner", "soul", "inline")


def test_missing_texts_are_empty(tmp_path: Path) -> None:
    assert read_profile_texts(Workspace(tmp_path)) == ProfileTexts("", "", "")


def test_a_prompt_file_takes_precedence_over_the_inline_prompt(workspace: Workspace, tmp_path: Path) -> None:
    (workspace.path / "role.md").write_text("relative")
    (tmp_path / "role.md").write_text("absolute")

    assert read_profile_texts(workspace, Path("role.md"), "inline").extra == "relative"
    assert read_profile_texts(workspace, tmp_path / "role.md", "inline").extra == "absolute"


def test_long_texts_are_shortened(workspace: Workspace) -> None:
    for path in (workspace.owner_text, workspace.soul, workspace.path / "role.md"):
        path.write_text("x" * (TEXT_LIMIT * 2))

    texts = read_profile_texts(workspace, Path("role.md"))

    assert all(
        TEXT_LIMIT < len(text) < TEXT_LIMIT + 100 and "the rest is left out" in text
        for text in (texts.owner_text, texts.soul, texts.extra)
    )


def test_a_missing_prompt_file_is_reported(workspace: Workspace) -> None:
    with pytest.raises(PromptFileError, match=r"role.md does not exist. Correct prompt_file"):
        read_profile_texts(workspace, Path("role.md"))


@pytest.mark.parametrize("name", ["memory", "AGENTS.md/role.md"])
def test_a_prompt_file_that_is_not_a_file_is_reported(workspace: Workspace, name: str) -> None:
    with pytest.raises(PromptFileError, match="cannot be read"):
        read_profile_texts(workspace, Path(name))


def test_an_unreadable_prompt_file_is_reported(open_folder: Path, plain_user: PlainUser) -> None:
    (open_folder / "role.md").write_text("secret")
    (open_folder / "role.md").chmod(0)

    with plain_user(), pytest.raises(PromptFileError, match="Permission denied"):
        read_profile_texts(Workspace(open_folder), Path("role.md"))


def test_unreadable_instructions_are_an_error(workspace: Workspace) -> None:
    workspace.owner_text.unlink()
    workspace.owner_text.mkdir()

    with pytest.raises(WorkspaceError, match=r"AGENTS.md should be a regular file"):
        read_profile_texts(workspace)
