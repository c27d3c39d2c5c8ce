"""The memory index: its shape, its bounds, and odd or hostile files in the folder."""

import os
from pathlib import Path

import pytest

from tests.agents.conftest import PlainUser
from tinyagi.agents import memory as module
from tinyagi.agents.memory import MAX_DEPTH, MAX_FILES, MAX_SUMMARY, memories, memory_index


def remember(folder: Path, path: str, text: str | bytes = "") -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def memory_text(name: str, summary: str) -> str:
    return f"---\nname: {name}\nsummary: {summary}\n---\n\nMore.\n"


def test_the_index_is_nested_by_folder_and_sorted(tmp_path: Path) -> None:
    remember(tmp_path, "zebra.md", memory_text("Zebra", "striped"))
    remember(tmp_path, "people/bob.md", memory_text("Bob", "tests"))
    remember(tmp_path, "people/ada.md", memory_text("Ada", "leads"))
    remember(tmp_path, "people/old/eve.md", memory_text("Eve", "left"))
    remember(tmp_path, "deep/er/x.md", memory_text("X", "far down"))
    remember(tmp_path, "apple.md", memory_text("Apple", "round"))

    assert memory_index(tmp_path).splitlines() == [
        "- **Apple** — round",
        "- **Zebra** — striped",
        "- deep/",
        "  - er/",
        "    - **X** — far down",
        "- people/",
        "  - **Ada** — leads",
        "  - **Bob** — tests",
        "  - old/",
        "    - **Eve** — left",
    ]


def test_equally_named_subfolders_are_listed_separately(tmp_path: Path) -> None:
    remember(tmp_path, "a/x/1.md")
    remember(tmp_path, "b/x/2.md")

    assert memory_index(tmp_path) == "- a/\n  - x/\n    - **1**\n- b/\n  - x/\n    - **2**"


@pytest.mark.parametrize("make", [lambda _: None, Path.mkdir, Path.touch])
def test_a_missing_or_empty_memory_has_an_empty_index(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / "memory")

    assert memory_index(tmp_path / "memory") == ""


def test_folders_without_memories_and_other_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    remember(tmp_path, "notes.txt", memory_text("Text", "no"))
    remember(tmp_path, ".hidden.md", memory_text("Hidden", "no"))
    remember(tmp_path, ".git/config.md", memory_text("Git", "no"))

    assert memory_index(tmp_path) == ""


def test_a_file_without_front_matter_is_listed_by_its_stem(tmp_path: Path) -> None:
    remember(tmp_path, "shopping.list.md", "# Milk\n")
    remember(tmp_path, "nameless.md", "---\nsummary: no name\n---\n")

    assert memory_index(tmp_path) == "- **nameless** — no name\n- **shopping.list**"


def test_every_memory_is_one_line(tmp_path: Path) -> None:
    remember(tmp_path, "a.md", "---\nname: a\u2028b\x85c\x0bd\nsummary: |\n  first\n  # second\n---\n")
    remember(tmp_path, "new\nline.md")
    remember(tmp_path, "fold\ner/x.md")

    assert memory_index(tmp_path).split("\n") == [
        "- **a b c d** — first # second",
        "- **new line**",
        "- fold er/",
        "  - **x**",
    ]


def test_names_and_summaries_are_bounded(tmp_path: Path) -> None:
    remember(tmp_path, "a.md", memory_text("n" * 500, "s" * 500))
    remember(tmp_path, "b.md", memory_text("b", "s" * 100_000))

    first, second = memory_index(tmp_path).splitlines()

    assert first == f"- **{'n' * 79}…** — {'s' * (MAX_SUMMARY - 1)}…"
    assert second == f"- **b** — {'s' * (MAX_SUMMARY - 1)}…"


def test_only_the_beginning_of_a_file_is_read(tmp_path: Path) -> None:
    remember(tmp_path, "a.md", "---\n" + "x: y\n" * 2_000 + "name: too late\n---\n")
    huge = remember(tmp_path, "b.md", memory_text("huge", "and sparse"))
    os.truncate(huge, 1 << 40)

    assert memory_index(tmp_path) == "- **a**\n- **huge** — and sparse"


def test_binary_files_do_not_break_the_index(tmp_path: Path) -> None:
    remember(tmp_path, "a.md", bytes(range(256)) * 40)
    remember(tmp_path, "b.md", b"---\nname: \xff\xfe\x00\nsummary: ok\n---")

    assert memory_index(tmp_path) == "- **a**\n- **\ufffd\ufffd\ufffd** — ok"


def test_a_file_name_that_is_not_utf8_does_not_break_the_index(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xe9b.md")).touch()
    (tmp_path / os.fsdecode(b"\xff.md")).touch()

    index = memory_index(tmp_path)

    assert sorted(index.encode().splitlines()) == ["- **a\ufffdb**".encode(), "- **\ufffd**".encode()]


def test_unreadable_files_do_not_break_the_index(open_folder: Path, plain_user: PlainUser) -> None:
    remember(open_folder, "a.md", memory_text("secret", "hidden")).chmod(0)
    remember(open_folder, "b.md", memory_text("open", "seen")).chmod(0o644)
    remember(open_folder, "closed/c.md", memory_text("c", "hidden"))
    (open_folder / "closed").chmod(0)

    with plain_user():
        index = memory_index(open_folder)
    (open_folder / "closed").chmod(0o755)

    assert index == "- **a**\n- **open** — seen"


def test_pipes_devices_and_broken_links_are_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "device.md").symlink_to("/dev/zero")
    (tmp_path / "broken.md").symlink_to("nowhere.md")
    (tmp_path / "circle.md").symlink_to("circle.md")

    assert memory_index(tmp_path) == ""


def test_links_to_outside_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "memory"
    secret = remember(tmp_path, "outside/secret.md", memory_text("Secret", "key"))
    sibling = remember(tmp_path, "memory-of-others/x.md", memory_text("Other", "theirs"))
    inside = remember(folder, "inside.md", memory_text("Inside", "mine"))
    (folder / "file.md").symlink_to(secret)
    (folder / "sibling.md").symlink_to(sibling)
    (folder / "folder").symlink_to(secret.parent)
    (folder / "itself").symlink_to(folder)
    (folder / "same.md").symlink_to(inside)

    assert memory_index(folder) == "- **Inside** — mine\n- **Inside** — mine"


def test_the_memory_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    remember(tmp_path, "shared/a.md", memory_text("A", "shared"))
    (tmp_path / "memory").symlink_to("shared")

    assert memory_index(tmp_path / "memory") == "- **A** — shared"


def test_the_number_of_files_is_bounded(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 1):
        remember(tmp_path, f"{number:03}.md")

    lines = memory_index(tmp_path).splitlines()

    assert len(lines) == MAX_FILES + 1
    assert lines[-2:] == [f"- **{MAX_FILES - 1}**", "- … and more: look into memory/ for the rest"]


def test_the_maximum_number_of_files_is_listed_without_a_note(tmp_path: Path) -> None:
    for number in range(MAX_FILES):
        remember(tmp_path, f"{number:03}.md")

    assert memory_index(tmp_path).splitlines()[-1] == f"- **{MAX_FILES - 1}**"


def test_the_depth_is_bounded(tmp_path: Path) -> None:
    remember(tmp_path, "d/" * MAX_DEPTH + "seen.md")
    remember(tmp_path, "d/" * (MAX_DEPTH + 1) + "unseen.md")

    lines = memory_index(tmp_path).splitlines()

    assert lines[-2].strip() == "- **seen**"
    assert lines[-1].startswith("- … and more")


def test_the_number_of_scanned_entries_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 10)
    for number in range(30):
        remember(tmp_path, f"{number}.txt")

    assert memory_index(tmp_path) == "- … and more: look into memory/ for the rest"


def test_the_bound_on_entries_counts_all_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 10)
    for number in range(8):
        remember(tmp_path, f"{number}/a.md")

    lines = memory_index(tmp_path).splitlines()

    assert lines.count("  - **a**") == 2, "eight folders and two files are ten entries"
    assert lines[-1].startswith("- … and more")


def test_memories_have_names_and_paths(tmp_path: Path) -> None:
    path = remember(tmp_path, "people/ada.md", memory_text("Ada", "leads"))

    (memory,) = memories(tmp_path)

    assert (memory.name, memory.summary, memory.folders, memory.path) == ("Ada", "leads", ("people",), path)
