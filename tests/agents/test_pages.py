"""Reading and writing whole texts of a workspace: atomically, and never outside it."""

import os
from pathlib import Path

import pytest

from tinyagi.agents.workspace_files import (
    LARGEST,
    TEXT_LIMIT,
    OutsideWorkspace,
    WorkspaceError,
    read_whole,
    replace_whole,
    resolve_inside,
)
from tinyagi.domain.errors import InvalidInput


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def test_a_page_is_read_as_it_was_written(workspace: Path) -> None:
    replace_whole(workspace, workspace / "AGENTS.md", "Grüße,\nsei genau.\n")

    assert read_whole(workspace, workspace / "AGENTS.md") == "Grüße,\nsei genau.\n"
    assert [file.name for file in workspace.iterdir()] == ["AGENTS.md"]


def test_a_missing_page_is_empty(workspace: Path) -> None:
    assert read_whole(workspace, workspace / "AGENTS.md") == ""
    assert read_whole(workspace / "gone", workspace / "gone" / "AGENTS.md") == ""


def test_a_page_above_the_prompt_limit_is_read_whole(workspace: Path) -> None:
    text = "x" * (TEXT_LIMIT * 2)
    (workspace / "AGENTS.md").write_text(text, encoding="utf-8")

    assert read_whole(workspace, workspace / "AGENTS.md") == text


def test_a_page_above_the_size_limit_is_refused(workspace: Path) -> None:
    with (workspace / "AGENTS.md").open("wb") as file:
        os.truncate(file.fileno(), LARGEST + 1)

    with pytest.raises(WorkspaceError, match="larger than 1 MiB"):
        read_whole(workspace, workspace / "AGENTS.md")


def test_a_page_above_the_prompt_limit_cannot_be_written(workspace: Path) -> None:
    with pytest.raises(InvalidInput, match="at most 64 KiB"):
        replace_whole(workspace, workspace / "AGENTS.md", "ä" * (TEXT_LIMIT // 2 + 1))

    assert not (workspace / "AGENTS.md").exists()


def test_a_lone_surrogate_cannot_be_written(workspace: Path) -> None:
    with pytest.raises(InvalidInput, match="surrogate"):
        replace_whole(workspace, workspace / "AGENTS.md", "\ud800")


def test_a_link_to_outside_is_neither_read_nor_written(workspace: Path, tmp_path: Path) -> None:
    outside = tmp_path / "secret.txt"
    outside.write_text("secret", encoding="utf-8")
    page = workspace / "AGENTS.md"
    page.symlink_to(outside)

    with pytest.raises(OutsideWorkspace, match="leads out of the agent's workspace"):
        read_whole(workspace, page)
    with pytest.raises(OutsideWorkspace):
        replace_whole(workspace, page, "new")

    assert outside.read_text(encoding="utf-8") == "secret"
    assert page.is_symlink()


def test_a_link_within_the_workspace_stays_a_link(workspace: Path) -> None:
    page, target = workspace / "AGENTS.md", workspace / "CLAUDE.md"
    target.write_text("old", encoding="utf-8")
    page.symlink_to("CLAUDE.md")

    replace_whole(workspace, page, "new")

    assert page.is_symlink()
    assert target.read_text(encoding="utf-8") == "new"


def test_a_workspace_may_be_a_link(workspace: Path, tmp_path: Path) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(workspace)

    replace_whole(alias, alias / "AGENTS.md", "here")

    assert (workspace / "AGENTS.md").read_text(encoding="utf-8") == "here"


def test_a_folder_in_the_place_of_a_page_is_refused(workspace: Path) -> None:
    (workspace / "AGENTS.md").mkdir()

    with pytest.raises(WorkspaceError, match="should be a regular file"):
        read_whole(workspace, workspace / "AGENTS.md")
    with pytest.raises(WorkspaceError):
        replace_whole(workspace, workspace / "AGENTS.md", "text")


def test_a_path_is_resolved_inside_the_workspace(workspace: Path) -> None:
    (workspace / "memory").mkdir()

    assert resolve_inside(workspace, workspace / "memory") == (workspace / "memory").resolve()
    with pytest.raises(OutsideWorkspace):
        resolve_inside(workspace, workspace / "memory" / ".." / ".." / "other")
