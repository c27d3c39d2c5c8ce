"""Answers for people: no raw tags, confined files, long answers as files, plugins, a signature."""

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.engine.conftest import House
from tests.support.syncs import Syncs
from tinyagi.domain.events import SettingsRejected
from tinyagi.domain.ids import AgentId
from tinyagi.domain.responses import NewResponse
from tinyagi.engine.attachments import MAX_FILES, SENT, attach, preview, take_file

SECRET = "top secret"
LARGEST = 1_000


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace" / "coder"
    folder.mkdir(parents=True)
    (folder / "plan.txt").write_text("the plan")
    (tmp_path / "secret.txt").write_text(SECRET)
    return folder


def test_a_file_of_the_workspace_is_attached_and_its_tag_removed(workspace: Path, tmp_path: Path) -> None:
    attached = attach("Here it is. [send_file: plan.txt]", [workspace], tmp_path / "files", LARGEST)

    assert (attached.text, attached.refused) == ("Here it is.", ())
    assert [Path(file).read_text() for file in attached.files] == ["the plan"]


def test_a_file_of_the_files_folder_is_attached_by_its_full_path(workspace: Path, tmp_path: Path) -> None:
    shared = tmp_path / "files"
    shared.mkdir()
    (shared / "photo.png").write_bytes(b"png")

    attached = attach(f"[send_file: {shared / 'photo.png'}]", [workspace], shared, LARGEST)

    assert attached.files == (str(shared / "photo.png"),)


@pytest.mark.parametrize(
    "path",
    ["../../secret.txt", "/etc/passwd", "{outside}", "link.txt", "folder/../../../secret.txt", "~/.ssh/id_rsa", "."],
)
def test_a_file_outside_the_workspace_is_not_attached(workspace: Path, tmp_path: Path, path: str) -> None:
    (workspace / "link.txt").symlink_to(tmp_path / "secret.txt")
    (workspace / "folder").mkdir()

    tag = f"[send_file: {path.format(outside=tmp_path / 'secret.txt')}]"
    attached = attach(tag, [workspace], tmp_path / "files", LARGEST)

    assert attached.files == ()
    assert "not attached" in attached.refused[0]


def test_a_tag_in_code_is_text(workspace: Path, tmp_path: Path) -> None:
    text = "Write `[send_file: plan.txt]` to attach it."

    assert attach(text, [workspace], tmp_path / "files", LARGEST).text == text


@pytest.mark.parametrize("path", ["\x00", "a" * 5000, "plan.txt/deeper", "//", "missing.txt"])
def test_hostile_paths_are_refused(workspace: Path, tmp_path: Path, path: str) -> None:
    assert attach(f"x [send_file: {path}] y", [workspace], tmp_path / "files", LARGEST).files == ()


@pytest.mark.parametrize("name", ["plan.txt", "missing {number}.txt"], ids=["the same file", "another file each time"])
def test_the_number_of_files_looked_up_per_text_is_limited(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    looked_for: list[str] = []

    def take(named: str, folders: Sequence[Path], files: Path, largest: int, kind: str = SENT) -> Path | str:
        looked_for.append(named)
        return take_file(named, folders, files, largest, kind)

    monkeypatch.setattr("tinyagi.engine.attachments.take_file", take)
    tags = "".join(f"[send_file: {name.format(number=number)}]" for number in range(70_000))

    attached = attach(f"Here. {tags}", [workspace], tmp_path / "files", LARGEST)

    assert len(looked_for) == (1 if name == "plan.txt" else MAX_FILES)
    assert attached.text == "Here."
    assert len(attached.refused) <= MAX_FILES + 1
    if name != "plan.txt":
        assert attached.refused[-1] == "(69,980 more files are not attached: a message takes at most 20)"


async def test_file_lookups_do_not_block_the_event_loop(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    turned = threading.Event()
    seen: list[bool] = []

    def take(named: str, folders: Sequence[Path], files: Path, largest: int, kind: str = SENT) -> Path | str:
        turned.clear()
        loop.call_soon_threadsafe(turned.set)
        seen.append(turned.wait(5))
        return take_file(named, folders, files, largest, kind)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr("tinyagi.engine.attachments.take_file", take)
    house.puppet.plays["coder"] = lambda _: "Done. [send_file: plan.txt]"
    async with house.open():
        await house.send("@coder write the plan")
        await house.drained()
        await house.engine.outbox.send(NewResponse("telegram", "Ada", "Look. [send_file: a]", agent=AgentId("coder")))
        await asyncio.gather(
            house.engine.outbox.send(NewResponse("telegram", "Ada", "Look.", files=("a",))), return_exceptions=True
        )

    assert seen == [True, True, True]


def test_a_preview_ends_between_words() -> None:
    text = preview("word " * 1000)

    assert text.endswith("word …\n\n(The full answer is attached.)")


async def test_a_long_answer_is_attached_in_full(house: House) -> None:
    house.settings["responses"]["long_answer_characters"] = 200
    long = "a long story " * 100
    house.puppet.plays["coder"] = lambda _: long
    async with house.open():
        await house.send("@coder tell me")
        await house.drained()
        (response,) = await house.responses()

    (file,) = json.loads(response.files or "[]")
    assert Path(file).read_text(encoding="utf-8") == long.strip()
    assert Path(file).parent == house.home.files / "sent"
    assert len(response.message) < len(long)


async def test_a_long_answer_is_synced_before_the_response_is_stored(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.settings["responses"]["long_answer_characters"] = 200
    house.puppet.plays["coder"] = lambda _: "a long story " * 100
    async with house.open():
        syncs = Syncs(monkeypatch)
        syncs.watch(house.store.queue, "complete_and_claim")
        await house.send("@coder tell me")
        await house.drained()
        (response,) = await house.responses()

    (file,) = json.loads(response.files or "[]")
    assert syncs.came_before("complete_and_claim", Path(file), house.home.files)


async def test_an_answer_is_signed_when_the_suffix_is_enabled(house: House) -> None:
    house.settings["responses"]["suffix"] = True
    async with house.open():
        await house.send("@coder hello")
        await house.drained()
        (response,) = await house.responses()
        history = await house.store.history.of_agent()

    assert response.message == "echo: hello\n\n- [coder]"
    assert history[0].content == "echo: hello"


async def test_plugins_transform_prompts_and_answers_but_not_stored_messages(house: House) -> None:
    plugin = house.home.plugins / "shout" / "plugin.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(
        "def transform_incoming(text, ctx):\n    return text.upper()\n"
        "def transform_outgoing(text, ctx):\n    return text + '!', {'parseMode': 'Markdown'}\n"
    )
    async with house.open():
        await house.send("@coder hello")
        await house.drained()
        (response,) = await house.responses()
        (message,) = await house.messages()

    assert house.puppet.prompts_of("coder") == ["HELLO"]
    assert response.message == "echo: HELLO!"
    assert json.loads(response.metadata or "{}") == {"parseMode": "Markdown"}
    assert message.message == "@coder hello"


async def test_a_disabled_plugin_changes_nothing(house: House) -> None:
    plugin = house.home.plugins / "shout" / "plugin.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("def transform_incoming(text, ctx):\n    return text.upper()\n")
    house.settings["plugins"] = {"disabled": ["shout"]}
    async with house.open():
        await house.send("@coder hello")
        await house.drained()

    assert house.puppet.prompts_of("coder") == ["hello"]


async def test_a_plugin_receives_events(house: House) -> None:
    plugin = house.home.plugins / "notes" / "plugin.py"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(
        "def activate(ctx):\n"
        "    ctx.on('chain_step_done', lambda event: (ctx.home / 'notes').write_text(event.payload['content']))\n"
    )
    notes = house.home.path / "notes"
    async with house.open():
        await house.send("@coder hello")
        await house.drained()
        await house.until(lambda: _exists(house, notes))

    assert notes.read_text() == "echo: hello"


async def _exists(house: House, path: Path) -> bool:
    if not path.exists():
        # `until` checks again only after a change.
        await house.store.events.append(SettingsRejected("tick"))
    return path.exists()
