"""Applying a plan: everything is imported once, and nothing of the old or the new home is lost."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tests.legacy.conftest import BOARD, NOW, board_of, imported, part, planned, reasons, store_of
from tests.support.old_home import PAIRING, contents, make_old_home, write_json
from tinyagi.domain.board import NewProject, NewTask, ProjectId, TaskId, TaskStatus
from tinyagi.domain.errors import Conflict
from tinyagi.domain.ids import AgentId
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.pairing import PairedSender
from tinyagi.legacy.apply import apply_plan
from tinyagi.legacy.old_home import OldHome
from tinyagi.settings.first_run import ensure_settings
from tinyagi.settings.home import Home


async def test_everything_is_imported(old: OldHome, home: Home) -> None:
    await imported(old, home)

    async with store_of(home) as store:
        assert (await store.queue.depth()).dead == 1
        assert await board_of(store) == BOARD
        assert {one.label: (one.enabled, one.agent_id) for one in await store.schedules.all()} == {
            "standup": (True, "coder"),
            "later": (True, "dev"),
            "missed": (False, "coder"),
        }
        assert [one.label for one in await store.schedules.due(NOW)] == []
        assert {(one.channel, one.sender_id) for one in await store.pairing.approved()} == {
            ("telegram", "42"),
            ("discord", "99"),
        }
        assert await store.pairing.pending() == ()
        assert [entry.action for entry in await store.audit.recent()] == ["migrate"]
    for name in ("files/report.pdf", "channels/whatsapp-session/Default/state", "chats/dev/2026-01-01.md"):
        assert (home.path / name).read_bytes() == (old.path / name).read_bytes()


async def test_ids_numbers_and_dates_are_kept(old: OldHome, home: Home) -> None:
    await imported(old, home)

    async with store_of(home) as store:
        project, _ = await store.board.projects()
        boxes = await store.board.task(TaskId("task_1"))
        comments = await store.board.comments(boxes.id)
        later = await store.board.add_task(NewTask("Draw a cloud", project_id=project.id))
        people = await store.pairing.approved()
    # The original stored these in seconds.
    assert (project.id, project.prefix, project.created_at) == ("proj_1", "SD", 100_000)
    assert (boxes.number, boxes.identifier, boxes.project_id) == (2, "SD-2", "proj_1")
    assert (boxes.created_at, boxes.updated_at) == (110_000, 120_000)
    assert [(one.id, one.created_at) for one in comments] == [("cmt_1", 130_000), ("cmt_2", 140_000)]
    assert later.identifier == "SD-6"
    assert [(one.sender_id, one.sender, one.approved_at, one.approved_code) for one in people] == [
        ("42", "Ada", 5_000, "HGFEDCBA"),
        ("99", "Bob", 1_767_225_600_000, None),
    ]


async def test_tasks_in_progress_are_not_sent_again_and_keep_their_order(old: OldHome, home: Home) -> None:
    (old.path / "tinyclaw.db").unlink()

    await imported(old, home)

    async with store_of(home) as store:
        depth = await store.queue.depth()
        column = await store.board.tasks(status=TaskStatus.IN_PROGRESS)
    assert (depth.pending, depth.processing) == (0, 0)
    assert [task.title for task in column] == ["Draw the arrows", "Draw the boxes"]


async def test_the_old_home_is_unchanged(old: OldHome, home: Home) -> None:
    before = contents(old.path)

    await imported(old, home)

    assert contents(old.path) == before


async def test_a_new_home_and_its_content_are_private(old: OldHome, home: Home) -> None:
    report = await imported(old, home)

    assert report.backup is not None
    for path in (home.path, *home.path.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o077 == 0, path
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(home.settings_file.stat().st_mode) == 0o600


async def test_the_backup_has_both_homes_before_the_import(old: OldHome, home: Home) -> None:
    ensure_settings(home, {}, which=lambda _: None)
    settings = home.settings_file.read_bytes()

    report = await imported(old, home)

    assert report.backup is not None
    assert report.backup.parent == home.backups
    for name in ("settings.json", "schedules.json", "pairing.json"):
        assert (report.backup / "old" / name).read_bytes() == (old.path / name).read_bytes()
    assert (report.backup / "home/settings.json").read_bytes() == settings
    for name, table in (("tasks.db", "tasks"), ("tinyclaw.db", "messages")):
        with closing(sqlite3.connect(report.backup / "old" / name)) as copy:
            assert copy.execute(f"SELECT count(*) FROM {table}").fetchone()[0] in {4, 5}  # noqa: S608


async def test_a_home_can_be_imported_in_place(tmp_path: Path) -> None:
    home = Home(make_old_home(tmp_path / "home"))

    report = await imported(OldHome(home.path), home)

    assert report.backup is not None
    async with store_of(home) as store:
        assert await board_of(store) == BOARD
        assert (await store.queue.depth()).dead == 1
    again = await planned(OldHome(home.path), home)
    assert not again.changes_anything
    assert part(again, "tasks").there == 4


@pytest.mark.parametrize("in_place", [False, True], ids=["elsewhere", "in place"])
async def test_a_second_import_changes_nothing(tmp_path: Path, home: Home, in_place: bool) -> None:
    old = OldHome(make_old_home(tmp_path / "old"))
    home = Home(old.path) if in_place else home
    await imported(old, home)

    again = await planned(old, home)

    assert not again.changes_anything
    assert {one.name: one.taken for one in again.parts if one.taken} == {}
    assert part(again, "schedules").there == 3
    assert part(again, "pairings").there == 2
    assert part(again, "messages").there == 5


async def test_things_removed_after_an_import_are_not_imported_again(old: OldHome, home: Home) -> None:
    await imported(old, home)
    async with store_of(home) as store:
        await store.pairing.unpair("telegram", "42")
        for schedule in await store.schedules.all():
            await store.schedules.delete(schedule.id)
        for task in await store.board.tasks():
            await store.board.delete_task(task.id)

    again = await planned(old, home)

    assert not again.changes_anything


async def test_a_person_approved_in_both_homes_is_not_imported_again(old: OldHome, home: Home) -> None:
    home.prepare()
    mine = PairedSender("telegram", "42", "My Ada", 1, None)
    async with store_of(home) as store:
        await store.pairing.import_people([mine])
    report = await imported(old, home)
    assert part(report.plan, "pairings").names == ("discord 99",)
    async with store_of(home) as store:
        assert mine in await store.pairing.approved()
        await store.pairing.unpair("telegram", "42")

    assert not (await planned(old, home)).changes_anything


async def test_a_task_of_a_deleted_project_is_imported_without_it(old: OldHome, home: Home) -> None:
    await imported(old, home)
    async with store_of(home) as store:
        await store.board.delete_project(ProjectId("proj_1"))
        await store.board.delete_task(TaskId("task_2"))
    with closing(sqlite3.connect(old.path / "tasks.db")) as board, board:
        board.execute("INSERT INTO tasks VALUES ('task_5', 6, 'New', '', 'todo', '', '', 'proj_1', 0, 300, 300)")
        board.execute("INSERT INTO comments VALUES ('cmt_3', 'task_2', 'Ada', 'user', 'Where is it?', 310)")

    report = await imported(old, home)

    assert reasons(report.plan, "tasks")["New"] == "its project is gone: it is imported without one"
    assert reasons(report.plan, "comments") == {"cmt_3": "there is no task task_2"}
    async with store_of(home) as store:
        assert (await store.board.task(TaskId("task_5"))).identifier == "T-4"


async def test_later_additions_to_the_old_home_are_imported_next_time(old: OldHome, home: Home) -> None:
    await imported(old, home)
    approved = [*PAIRING["approved"], {"channel": "telegram", "senderId": "77", "sender": "Cy"}]  # type: ignore[misc]
    write_json(old.path / "pairing.json", {"approved": approved})

    report = await imported(old, home)

    assert part(report.plan, "pairings").names == ("telegram 77",)
    async with store_of(home) as store:
        assert len(await store.pairing.approved()) == 3


async def test_an_old_queue_is_skipped_when_the_new_home_has_messages(old: OldHome, home: Home) -> None:
    home.prepare()
    async with store_of(home) as store:
        await store.queue.enqueue(NewMessage(channel="cli", sender="Ada", message="mine", agent=AgentId("tinyagi")))

    report = await imported(old, home)

    (left,) = reasons(report.plan, "queue").items()
    assert left[0] == f"{old.path / 'tinyclaw.db'} (8 rows)"
    assert "move" in left[1]
    async with store_of(home) as store:
        assert (await store.queue.depth()).pending == 1
        assert await board_of(store) == BOARD


async def test_everything_is_imported_again_after_the_database_was_moved_away(old: OldHome, home: Home) -> None:
    home.prepare()
    async with store_of(home) as store:
        await store.queue.enqueue(NewMessage(channel="cli", sender="Ada", message="mine", agent=AgentId("tinyagi")))
    await imported(old, home)
    home.database.rename(home.path / "mine.db")

    await imported(old, home)

    async with store_of(home) as store:
        assert (await store.queue.depth()).dead == 1
        assert await board_of(store) == BOARD
        assert len(await store.pairing.approved()) == 2


async def test_an_unused_queue_is_replaced(old: OldHome, home: Home) -> None:
    home.prepare()
    async with store_of(home):
        pass

    await imported(old, home)

    async with store_of(home) as store:
        assert (await store.queue.depth()).dead == 1


async def test_an_existing_board_keeps_its_prefixes_and_order(old: OldHome, home: Home) -> None:
    home.prepare()
    async with store_of(home) as store:
        mine = await store.board.add_project(NewProject("Slow dance", prefix="SD"))
        await store.board.add_task(NewTask("Lead", project_id=mine.id, status=TaskStatus.IN_PROGRESS))

    report = await imported(old, home)

    async with store_of(home) as store:
        board = await board_of(store)
        column = await store.board.tasks(status=TaskStatus.IN_PROGRESS)
    assert board["SD-1"] == ("Lead", "in_progress", "")
    assert board["SYSTE-2"][0] == "Draw the boxes"
    assert [task.title for task in column] == ["Lead", "Draw the arrows", "Draw the boxes"]
    assert reasons(report.plan, "projects") == {
        "System design": "its prefix SD is taken or not valid: it gets SYSTE",
        "Site docs": "its prefix SD is taken or not valid: it gets SITED",
    }


async def test_an_imported_task_with_a_taken_number_gets_the_next_one(old: OldHome, home: Home) -> None:
    home.prepare()
    async with store_of(home) as store:
        for _ in range(3):
            await store.board.add_task(NewTask("Mine"))

    report = await imported(old, home)

    assert reasons(report.plan, "tasks")["Water the plants"] == "its number 3 is taken: it gets the next one"
    async with store_of(home) as store:
        board = await board_of(store)
        assert [board[name][0] for name in ("T-3", "T-4")] == ["Mine", "Water the plants"]


async def test_existing_files_are_not_overwritten_and_outside_links_not_followed(
    tmp_path: Path, old: OldHome, home: Home
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (old.path / "files/out.txt").symlink_to(tmp_path / "secret.txt")
    (old.path / "files/in.txt").symlink_to(old.path / "files/report.pdf")
    (old.path / "files/nowhere").symlink_to("gone")
    (old.path / "channels/root").symlink_to(tmp_path)
    os.mkfifo(old.path / "channels/pipe")
    home.prepare()
    (home.files / "report.pdf").write_text("mine")

    report = await imported(old, home)

    assert (home.files / "report.pdf").read_text() == "mine"
    assert (home.files / "in.txt").read_bytes() == b"%PDF"
    assert not (home.files / "in.txt").is_symlink()
    assert reasons(report.plan, "files") == {
        "files/report.pdf": "the new home has another file of this name",
        "files/out.txt": "it is a link that leads out of the old home",
        "files/nowhere": "it is a broken link",
        "channels/root": "it is a link that leads out of the old home",
        "channels/pipe": "it is not a regular file",
    }
    assert not list(home.path.rglob("out.txt"))
    assert not list(home.path.rglob("secret.txt"))


async def test_set_up_after_an_import_changes_nothing(old: OldHome, home: Home) -> None:
    await imported(old, home)
    before = contents(home.path)

    for _ in range(2):
        ensure_settings(home, {}, which=lambda _: None)

    after = contents(home.path)
    # Set-up creates the folders of a home and changes no file.
    assert {name: content for name, content in after.items() if content != "a folder"} == {
        name: content for name, content in before.items() if content != "a folder"
    }


@pytest.mark.parametrize("content", ["{pid}", "{pid}\n", '{{"pid": {pid}, "port": 3777}}'])
@pytest.mark.parametrize("where", ["old", "home"])
async def test_an_import_is_refused_while_a_daemon_runs(old: OldHome, home: Home, where: str, content: str) -> None:
    plan = await planned(old, home)
    path = old.path if where == "old" else home.path
    path.mkdir(exist_ok=True)
    (path / "tinyagi.pid").write_text(content.format(pid=os.getpid()))
    before = contents(home.path)

    with pytest.raises(Conflict, match="tinyagi stop"):
        await apply_plan(plan, now=NOW)

    assert contents(home.path) == before


async def test_a_stale_pid_file_does_not_prevent_an_import(old: OldHome, home: Home) -> None:
    file = old.path / "tinyagi.pid"
    file.write_text(str(os.getpid()))
    os.utime(file, (1_000_000_000, 1_000_000_000))

    report = await imported(old, home)

    assert report.was_applied
