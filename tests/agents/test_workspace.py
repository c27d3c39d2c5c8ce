"""An agent's folder: created files, kept files, and obstacles."""

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.agents.conftest import CODER, PlainUser
from tinyagi.agents.skills import DefaultSkill, default_skills
from tinyagi.agents.workspace import Workspace, prepare, take_reset_flag
from tinyagi.agents.workspace_files import WorkspaceError
from tinyagi.domain.ids import AgentId
from tinyagi.domain.routing import Agent

TEXTS = ("AGENTS.md", "heartbeat.md", ".tinyagi/SOUL.md")

KILLED_AT_A_FILE = """
import os, signal, sys
from pathlib import Path
from tinyagi.agents.workspace import prepare
from tinyagi.domain.routing import Agent
link, left = os.link, iter(range(int(sys.argv[2])))
os.link = lambda *paths: link(*paths) if next(left, None) is not None else os.kill(os.getpid(), signal.SIGKILL)
prepare(Path(sys.argv[1]), Agent("coder", "Coder"))
"""


def everything(folder: Path) -> dict[str, bytes | None]:
    """Every path below the folder with its content; None for folders."""
    entries = (Path(parent) / name for parent, folders, files in os.walk(folder) for name in folders + files)
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in entries}


def test_a_new_folder_has_every_file_of_an_agent(folder: Path) -> None:
    workspace = prepare(folder, CODER)

    assert {path for path in everything(folder) if "skills/" not in path} == {
        *("AGENTS.md", "heartbeat.md", "memory", ".tinyagi", ".tinyagi/SOUL.md", ".tinyagi/version"),
        *(".agents", ".agents/skills", ".claude", ".claude/skills"),
    }
    assert workspace.owner_text.read_text().startswith("# Coder\n")
    assert "@coder" in workspace.owner_text.read_text()
    assert workspace.memory.is_dir()
    assert (workspace.skills / "memory" / "SKILL.md").is_file()


def test_a_new_folder_is_private_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    shared.chmod(0o755)

    prepare(shared, CODER)
    prepare(tmp_path / "agents" / "coder", CODER)

    assert stat.S_IMODE(shared.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "agents" / "coder").stat().st_mode) == 0o700


def test_the_claude_skills_link_survives_a_move(workspace: Workspace, tmp_path: Path) -> None:
    moved = workspace.path.rename(tmp_path / "elsewhere")

    assert (moved / ".claude" / "skills").readlink() == Path("../.agents/skills")
    assert (moved / ".claude" / "skills" / "tasks" / "SKILL.md").is_file()


def test_preparing_again_changes_nothing(workspace: Workspace) -> None:
    before = everything(workspace.path)

    again = prepare(workspace.path, CODER)

    assert everything(workspace.path) == before
    assert again.synced is None


@pytest.mark.parametrize("name", TEXTS)
def test_existing_texts_of_the_owner_are_kept(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("mine")

    prepare(folder, CODER)

    assert (folder / name).read_text() == "mine"
    assert all((folder / other).is_file() for other in TEXTS)


def test_a_deleted_text_is_not_created_again(workspace: Workspace) -> None:
    workspace.heartbeat.unlink()

    prepare(workspace.path, CODER)

    assert not workspace.heartbeat.exists()


def test_a_partly_created_folder_is_completed(workspace: Workspace) -> None:
    complete = everything(workspace.path)
    for path in (workspace.path / ".tinyagi" / "version", workspace.soul, workspace.path / ".claude" / "skills"):
        path.unlink()
    workspace.memory.rmdir()

    prepare(workspace.path, CODER)

    assert everything(workspace.path) == complete


@pytest.mark.parametrize("files", [0, 2, 5, 7])
def test_a_process_killed_between_two_files_leaves_whole_files_only(folder: Path, tmp_path: Path, files: int) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED_AT_A_FILE, folder, str(files)], check=False, timeout=60)
    left = everything(folder)
    whole = everything(prepare(tmp_path / "whole", CODER).path)

    prepare(folder, CODER)

    assert killed.returncode == -signal.SIGKILL
    assert ".tinyagi/version" not in left
    assert {path: content for path, content in left.items() if not path.endswith(".tmp")}.items() <= whole.items()
    assert everything(folder).items() >= whole.items()


def test_concurrent_preparations_create_one_folder(folder: Path) -> None:
    together = threading.Barrier(8)

    def prepare_together(_: int) -> Workspace:
        together.wait()
        return prepare(folder, CODER)

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(prepare_together, range(8)))

    assert {workspace.path for workspace in made} == {folder}
    assert not [path for path in everything(folder) if path.endswith(".tmp")]
    assert not [kept for workspace in made if workspace.synced for kept in workspace.synced.kept]


def test_new_skills_are_copied_into_an_existing_folder(workspace: Workspace) -> None:
    skill = DefaultSkill("new", 1, "---\nname: new\nversion: 1\n---\n")

    prepared = prepare(workspace.path, CODER, skills=[*default_skills(), skill])

    assert prepared.synced is not None
    assert prepared.synced.copied == ("new",)
    assert prepare(workspace.path, CODER, skills=[*default_skills(), skill]).synced is None


def test_skills_are_not_checked_while_their_versions_are_the_same(workspace: Workspace) -> None:
    gone = workspace.skills / "tasks" / "SKILL.md"
    gone.unlink()

    prepare(workspace.path, CODER)

    assert not gone.exists()


def test_an_agents_name_is_not_expanded(tmp_path: Path) -> None:
    prepare(tmp_path / "odd", Agent(AgentId("odd"), "{{agent}}\n$name {name}"))

    assert (tmp_path / "odd" / "AGENTS.md").read_text().startswith("# {{agent}} $name {name}\n")


@pytest.mark.parametrize("name", [".", ".tinyagi", "memory", ".agents", ".agents/skills", ".claude"])
def test_a_file_in_place_of_a_folder_is_reported(folder: Path, name: str) -> None:
    blocked = folder / name
    blocked.parent.mkdir(parents=True)
    blocked.write_text("in the way")

    with pytest.raises(WorkspaceError, match="Move that file away") as error:
        prepare(folder, CODER)

    assert str(blocked) in str(error.value)
    assert blocked.read_text() == "in the way"


def test_a_file_in_place_of_a_parent_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "workspace").write_text("in the way")

    with pytest.raises(WorkspaceError, match="Move that file away"):
        prepare(tmp_path / "workspace" / "coder", CODER)


def test_a_folder_in_place_of_the_version_is_reported(workspace: Workspace) -> None:
    version = workspace.path / ".tinyagi" / "version"
    version.unlink()
    version.mkdir()

    with pytest.raises(WorkspaceError, match="should be a regular file"):
        prepare(workspace.path, CODER)


def test_a_pipe_in_place_of_the_version_is_replaced(workspace: Workspace) -> None:
    version = workspace.path / ".tinyagi" / "version"
    version.unlink()
    os.mkfifo(version)

    prepare(workspace.path, CODER)

    assert version.is_file()


def test_a_read_only_folder_is_named_with_a_remedy(open_folder: Path, plain_user: PlainUser) -> None:
    open_folder.chmod(0o555)

    with plain_user(), pytest.raises(WorkspaceError, match="Make it readable and writable") as error:
        prepare(open_folder, CODER)

    assert str(open_folder / ".tinyagi") in str(error.value)


def test_a_complete_folder_may_be_read_only(open_folder: Path, plain_user: PlainUser) -> None:
    prepare(open_folder, CODER)
    open_folder.chmod(0o555)

    with plain_user():
        assert prepare(open_folder, CODER) == Workspace(open_folder)


@pytest.fixture(params=["memory", ".tinyagi", ".agents", ".agents/skills"])
def outside_link(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Iterator[Path]:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = folder / request.param
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    yield link
    assert not list(outside.iterdir()), "a file was written through the link"


def test_a_link_out_of_the_workspace_is_refused(outside_link: Path, folder: Path) -> None:
    with pytest.raises(WorkspaceError, match="leads out of") as error:
        prepare(folder, CODER)

    assert str(outside_link) in str(error.value)


def test_an_agents_folder_linked_outside_the_workspace_is_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "workspace", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    prepare(outside, CODER)
    (root / "coder").symlink_to(outside)

    with pytest.raises(WorkspaceError, match="leads out of"):
        prepare(root / "coder", CODER, within=root)


def test_agents_may_share_a_memory_within_the_workspace(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    (root / "shared").mkdir(parents=True)
    (root / "coder").mkdir()
    (root / "coder" / "memory").symlink_to(root / "shared")

    assert prepare(root / "coder", CODER, within=root).memory.is_dir()


def test_a_linked_workspace_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "workspace").symlink_to(tmp_path / "disk")

    prepare(tmp_path / "workspace" / "coder", CODER, within=tmp_path / "workspace")

    assert (tmp_path / "disk" / "coder" / "AGENTS.md").is_file()


def test_a_dangling_link_in_place_of_a_text_is_not_followed(folder: Path, tmp_path: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "AGENTS.md").symlink_to(tmp_path / "elsewhere.md")

    prepare(folder, CODER)

    assert not (tmp_path / "elsewhere.md").exists()


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: path.symlink_to("../../shared")])
def test_existing_claude_skills_are_kept(folder: Path, make: object) -> None:
    assert callable(make)
    (folder / ".claude").mkdir(parents=True)
    make(folder / ".claude" / "skills")
    before = os.lstat(folder / ".claude" / "skills").st_ino

    prepare(folder, CODER)

    assert os.lstat(folder / ".claude" / "skills").st_ino == before


def test_no_link_is_created_in_a_claude_folder_outside(folder: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    folder.mkdir(parents=True)
    (folder / ".claude").symlink_to(shared)

    prepare(folder, CODER)

    assert not list(shared.iterdir())


def test_a_reset_flag_is_taken_once(workspace: Workspace) -> None:
    assert not take_reset_flag(workspace.path)

    (workspace.path / "reset_flag").touch()

    assert take_reset_flag(workspace.path)
    assert not take_reset_flag(workspace.path)


def test_concurrent_takers_get_a_reset_flag_once(workspace: Workspace) -> None:
    together = threading.Barrier(8)

    def take(_: int) -> bool:
        together.wait()
        return take_reset_flag(workspace.path)

    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            (workspace.path / "reset_flag").touch()
            assert sum(pool.map(take, range(8))) == 1


def test_a_missing_folder_has_no_reset_flag(tmp_path: Path) -> None:
    assert not take_reset_flag(tmp_path / "nowhere")


def test_a_folder_in_place_of_a_reset_flag_is_reported(workspace: Workspace) -> None:
    (workspace.path / "reset_flag").mkdir()

    with pytest.raises(WorkspaceError, match="reset_flag"):
        take_reset_flag(workspace.path)
