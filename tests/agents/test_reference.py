"""The reference page of the workspace agrees with the code."""

import re
from pathlib import Path

import pytest

from tinyagi.agents import memory
from tinyagi.agents.skills import RECORD, default_skills
from tinyagi.agents.system_prompt import AgentProfile, system_prompt
from tinyagi.agents.workspace import Workspace
from tinyagi.agents.workspace_files import HEAD_LIMIT, TEXT_LIMIT
from tinyagi.domain.ids import AgentId

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "workspace.md").read_text(encoding="utf-8")


def test_every_file_of_a_new_folder_is_documented(workspace: Workspace) -> None:
    files = {str(path.relative_to(workspace.path)) for path in workspace.path.rglob("*") if path.is_file()}
    plain = {re.sub(r"skills/[\w-]+/", "skills/<skill>/", file) for file in files if not file.startswith(".claude/")}

    documented = set(re.findall(r"^\| `([^`]+)` \|", PAGE.split("## System prompt")[0], re.MULTILINE))

    assert f".agents/skills/{RECORD}" in plain
    assert plain | {"memory/**/*.md", ".claude/skills", "reset_flag"} == documented


def test_every_default_skill_is_documented() -> None:
    documented = re.findall(r"^\| `([\w-]+)` \|", PAGE.split("## Skills")[1], re.MULTILINE)

    assert documented == [skill.id for skill in default_skills()]


@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("files in the index", f"{memory.MAX_FILES}"),
        ("depth of folders", f"{memory.MAX_DEPTH}"),
        ("directory entries looked at", f"{memory.MAX_ENTRIES:,}"),
        ("read of each file", f"{HEAD_LIMIT // 1024} KiB"),
        ("length of a name", f"{memory.MAX_NAME} characters"),
        ("length of a summary", f"{memory.MAX_SUMMARY} characters"),
    ],
)
def test_every_limit_is_documented(limit: str, value: str) -> None:
    assert f"| {limit} | {value} |" in PAGE


def test_the_parts_of_a_prompt_come_in_the_documented_order() -> None:
    profile = AgentProfile(AgentId("a"), "A", Path("/a"), Path("/f"), soul="SOUL", owner_text="OWNER", extra="EXTRA")

    prompt = system_prompt(profile)

    assert prompt.index("SOUL\n") < prompt.index("OWNER\n") < prompt.index("EXTRA\n")
    assert f"{TEXT_LIMIT // 1024} KiB" in PAGE
