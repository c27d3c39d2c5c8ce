"""Allowed workspaces and prompt files of an agent."""

from pathlib import Path

import pytest

from tests.settings.conftest import stored, write
from tinyagi.settings.agent_setup import prompt_file_problem, workspace_problem
from tinyagi.settings.errors import InvalidSettings
from tinyagi.settings.home import Home
from tinyagi.settings.settings_file import SettingsFile


@pytest.mark.parametrize(
    "folder",
    ["/", "//", "/etc", "/etc/agents", "/usr", "/usr/bin", "/usr/lib/agents", "/bin", "/proc/self", "/var"],
)
def test_a_system_folder_cannot_be_a_workspace(folder: str, home: Home) -> None:
    problem = workspace_problem(Path(folder), home)

    assert problem is not None
    assert folder in problem


@pytest.mark.parametrize("folder", [".", "..", "logs", "backups/old", "lake", "channels", "plugins", "files"])
def test_the_home_and_its_parents_cannot_be_a_workspace(folder: str, home: Home) -> None:
    assert workspace_problem(home.path / folder, home) is not None


def test_the_users_home_folder_cannot_be_a_workspace(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "ada"
    user.mkdir()
    monkeypatch.setenv("HOME", str(user))

    assert "your home folder" in str(workspace_problem(user, home))
    assert workspace_problem(user / "projects", home) is None


def test_a_link_is_checked_by_its_target(home: Home, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")

    assert workspace_problem(tmp_path / "link", home) is not None
    assert workspace_problem(tmp_path / "link" / "agents", home) is not None


@pytest.mark.parametrize("folder", ["/srv/agents/coder", "/usr/local/src/project", "/var/lib/tinyagi/coder"])
def test_other_folders_are_allowed(folder: str, home: Home) -> None:
    assert workspace_problem(Path(folder), home) is None
    assert workspace_problem(home.path / "workspace" / "coder", home) is None


def test_a_prompt_file_must_be_in_the_workspace_or_the_home(home: Home, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    for file in (
        workspace / "role.md",
        workspace / "deep" / "role",
        home.path / "prompts/all.md",
        home.files / "a.txt",
    ):
        assert prompt_file_problem(file, workspace, home) is None
    for file in (
        Path("/etc/shadow"),
        tmp_path / "other" / "role.md",
        workspace / ".." / "role.md",
        home.path / ".." / "a.md",
    ):
        assert prompt_file_problem(file, workspace, home) is not None


def test_a_prompt_file_cannot_be_a_secret_of_the_home(home: Home, tmp_path: Path) -> None:
    for file in (home.settings_file, home.database, home.path / "erasures.key", home.backups / "settings-1.json"):
        assert prompt_file_problem(file, tmp_path / "workspace", home) is not None


def test_a_prompt_file_that_links_out_of_the_workspace_is_refused(home: Home, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "role.md").symlink_to("/etc/hostname")
    (workspace / "key.md").symlink_to(home.settings_file)

    assert prompt_file_problem(workspace / "role.md", workspace, home) is not None
    assert prompt_file_problem(workspace / "key.md", workspace, home) is not None


PATCHES: list[dict[str, object]] = [
    {"agents": {"coder": {"working_directory": "/"}}},
    {"agents": {"coder": {"prompt_file": "/etc/shadow"}}},
    {"agents": {"new": {"prompt_file": "~/.ssh/id_ed25519"}}},
]


@pytest.mark.parametrize("patch", PATCHES)
def test_an_edit_with_a_forbidden_path_is_refused(home: Home, patch: dict[str, object]) -> None:
    write(home, {"agents": {"coder": {}}})

    with pytest.raises(InvalidSettings, match=r"agents\.\w+\.(working_directory|prompt_file): "):
        SettingsFile(home).update(patch)
    assert stored(home) == {"agents": {"coder": {}}}


def test_the_workspace_path_is_checked(home: Home) -> None:
    with pytest.raises(InvalidSettings, match=r"workspace\.path: "):
        SettingsFile(home).update({"workspace": {"path": "/etc"}})


@pytest.mark.parametrize("patch", PATCHES)
def test_existing_settings_with_a_forbidden_path_can_be_read_and_edited(home: Home, patch: dict[str, object]) -> None:
    write(home, patch)

    assert SettingsFile(home).read() is not None
    SettingsFile(home).update({"monitoring": {"heartbeat_interval": 60}})
    assert stored(home) == {**patch, "monitoring": {"heartbeat_interval": 60}}


@pytest.mark.parametrize("name", [".ssh", ".config/tool", ".aws"])
def test_a_folder_with_keys_cannot_be_a_workspace(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert "keys" in (workspace_problem(tmp_path / name, home) or "")
