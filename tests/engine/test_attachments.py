"""Attachments are copies of the checked file: replacing it later, or a hard link, leaks nothing."""

import json
import os
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from tests.engine.conftest import House
from tinyagi.domain.errors import DuplicateMessage, InvalidInput
from tinyagi.domain.ids import AgentId
from tinyagi.domain.responses import NewResponse
from tinyagi.engine.attachments import MAX_FILES, attach, take_file
from tinyagi.system.files import open_below

SECRET = "a secret of the owner"
LARGEST = 1_000


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text(SECRET)
    return path


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace" / "coder"
    (folder / "sub").mkdir(parents=True)
    (folder / "plan.txt").write_text("the plan")
    (folder / "sub" / "deep.txt").write_text("deep")
    return folder


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir(mode=0o700)
    return folder


def taken(named: str, workspace: Path, files: Path) -> Path:
    found = take_file(named, [workspace], files, LARGEST)
    assert isinstance(found, Path), found
    return found


def refusal(named: str, workspace: Path, files: Path) -> str:
    found = take_file(named, [workspace], files, LARGEST)
    assert isinstance(found, str)
    assert not list(files.rglob("*.txt")), "no copy remains"
    return found


def test_a_file_replaced_by_a_link_leaks_nothing(workspace: Path, files: Path, secret: Path) -> None:
    attached = attach("[send_file: plan.txt]", [workspace], files, LARGEST)
    (workspace / "plan.txt").unlink()
    (workspace / "plan.txt").symlink_to(secret)

    (file,) = attached.files
    assert Path(file).read_text() == "the plan"


def test_a_copy_keeps_its_name_and_is_private(workspace: Path, files: Path) -> None:
    (workspace / "plan.txt").chmod(0o644)

    one, two = taken("plan.txt", workspace, files), taken("plan.txt", workspace, files)

    assert one.name == two.name == "plan.txt"
    assert one != two
    assert stat.S_IMODE(one.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (one.parent, one.parent.parent)} == {0o700}
    assert one.is_relative_to(files)


def test_a_link_inside_the_workspace_is_followed(workspace: Path, files: Path) -> None:
    (workspace / "latest.txt").symlink_to(workspace / "sub" / "deep.txt")

    assert taken("latest.txt", workspace, files).read_text() == "deep"


def test_a_hard_link_is_refused(workspace: Path, files: Path, secret: Path) -> None:
    os.link(secret, workspace / "mine.txt")

    assert "another name" in refusal("mine.txt", workspace, files)


def test_a_hard_link_in_the_files_folder_is_refused(workspace: Path, files: Path, secret: Path) -> None:
    os.link(secret, files / "mine.md")

    assert "another name" in refusal(str(files / "mine.md"), workspace, files)


def test_a_file_of_the_files_folder_is_not_copied(workspace: Path, files: Path) -> None:
    (files / "photo.png").write_bytes(b"png")

    assert taken(str(files / "photo.png"), workspace, files) == files / "photo.png"


def test_a_file_that_is_too_large_is_refused(workspace: Path, files: Path) -> None:
    (workspace / "plan.txt").write_text("x" * (LARGEST + 1))

    assert "larger than" in refusal("plan.txt", workspace, files)


def test_a_named_pipe_is_refused_without_blocking(workspace: Path, files: Path) -> None:
    os.mkfifo(workspace / "pipe.txt")

    assert "no such file" in refusal("pipe.txt", workspace, files)


@pytest.mark.parametrize("exchanged", ["sub", "sub/deep.txt"])
def test_a_link_created_between_check_and_open_is_not_followed(workspace: Path, tmp_path: Path, exchanged: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "deep.txt").write_text(SECRET)
    (workspace / exchanged).rename(tmp_path / "away")
    (workspace / exchanged).symlink_to(elsewhere if exchanged == "sub" else elsewhere / "deep.txt")

    with pytest.raises(OSError, match="sub" if exchanged == "sub" else "deep"):
        open_below(workspace, Path("sub/deep.txt"))


def test_only_sent_files_are_copied(workspace: Path, files: Path) -> None:
    names = [f"plan {number}.txt" for number in range(MAX_FILES + 5)]
    for name in names:
        (workspace / name).write_text("the plan")

    attached = attach("".join(f"[send_file: {name}]\n" for name in names), [workspace], files, LARGEST)

    assert len(attached.files) == len(list(files.rglob("plan *.txt"))) == MAX_FILES
    assert attached.refused == ("(5 more files are not attached: a message takes at most 20)",)


async def test_people_and_agents_get_a_copy(house: House) -> None:
    folder = house.folder / "workspace" / "coder"
    folder.mkdir(parents=True)
    (folder / "plan.txt").write_text("the plan")
    house.puppet.plays["coder"] = lambda _: "Here. [send_file: plan.txt]"
    async with house.open():
        await house.send("@coder look", files=(str(folder / "plan.txt"),), channel="web")
        await house.drained()
        (answer,) = await house.store.responses.pending("web")
        sent = await house.engine.outbox.send(
            NewResponse("web", "Ada", "look", agent=AgentId("coder"), files=(str(folder / "plan.txt"),))
        )
        (message,) = await house.messages()

    copies = [json.loads(text or "[]")[0] for text in (answer.files, sent.files, message.files)]
    assert len(set(copies)) == 3
    for copy in copies:
        assert Path(copy).is_relative_to(house.home.files)
        assert Path(copy).read_text() == "the plan"


async def test_a_message_with_a_hard_link_is_refused(house: House) -> None:
    async with house.open(start=False):
        (house.home.files / "one.txt").write_text(SECRET)
        os.link(house.home.files / "one.txt", house.home.files / "two.txt")
        with pytest.raises(InvalidInput, match="another name"):
            await house.send("@coder look", files=("two.txt",))


async def test_copies_and_long_answers_are_deleted_with_their_responses(house: House) -> None:
    house.settings["queue"] |= {"keep_completed_hours": 0, "keep_acked_hours": 0, "maintenance_seconds": 0.05}
    house.settings["responses"]["long_answer_characters"] = 10
    folder = house.folder / "workspace" / "coder"
    folder.mkdir(parents=True)
    (folder / "plan.txt").write_text("the plan")
    house.puppet.plays["coder"] = lambda _: f"{'Here it is. ' * 5}[send_file: plan.txt]"
    async with house.open():
        (house.home.files / "photo.png").write_bytes(b"of a person")
        await house.send("@coder one", channel="web")
        await house.send("@coder two", channel="web", sender="Bob")
        await house.drained()
        first, second = await house.store.responses.pending("web")
        gone, kept = (tuple(map(Path, json.loads(one.files or "[]"))) for one in (first, second))
        for path in house.home.files.rglob("*"):
            os.utime(path, (1, 1))
        await house.store.responses.ack(first.id)

        async def is_gone() -> bool:
            return not any(path.exists() for path in gone)

        await house.until(is_gone)

    assert len(gone) == 2
    assert all(path.exists() for path in kept)
    assert (house.home.files / "photo.png").exists()
    assert folder.joinpath("plan.txt").exists()
    assert not gone[0].parent.exists()


async def test_copies_for_messages_are_deleted_with_them_and_own_files_stay(house: House) -> None:
    house.settings["queue"] |= {"keep_completed_hours": 0}
    folder = house.folder / "workspace" / "coder"
    folder.mkdir(parents=True)
    (folder / "plan.txt").write_text("the plan")
    async with house.open():
        received, own = house.home.files / "received", house.home.files / "response_plan_1234.md"
        own.write_text("of a person")
        await house.send("@coder one", files=(str(folder / "plan.txt"), str(own)))
        await house.drained()
        (gone,) = received.glob("*/plan.txt")
        await house.send("@coder later", files=(str(folder / "plan.txt"),), delay=timedelta(hours=1))
        (kept,) = set(received.glob("*/plan.txt")) - {gone}
        for path in (own, gone.parent, kept.parent):
            os.utime(path, (1, 1))

        while gone.exists():
            # Its message is pruned once every reader of the log has passed it.
            await house.engine._maintenance.run_once()

    assert kept.exists(), "its message still waits"
    assert own.exists()


async def test_a_refused_duplicate_leaves_no_copy(house: House) -> None:
    folder = house.folder / "workspace" / "coder"
    folder.mkdir(parents=True)
    (folder / "plan.txt").write_text("the plan")
    async with house.open():
        await house.send("@coder one", files=(str(folder / "plan.txt"),), message_id="once")
        for _ in range(2):
            with pytest.raises(DuplicateMessage):
                await house.send("@coder one", files=(str(folder / "plan.txt"),), message_id="once")

    assert len(list((house.home.files / "received").iterdir())) == 1
