"""Syncing the default skills without touching the owner's files."""

import json
import os
from pathlib import Path

import pytest

from tinyagi.agents.skills import (
    RECORD,
    DefaultSkill,
    Skill,
    SkillSync,
    default_skills,
    list_skills,
    sync_skills,
    version_of,
)
from tinyagi.agents.workspace_files import WorkspaceError


def skill(version: int, body: str = "") -> DefaultSkill:
    return DefaultSkill("notes", version, f"---\nname: notes\ndescription: d\nversion: {version}\n---\n{body}\n")


OLD, NEW = skill(1, "old"), skill(2, "new")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def file(folder: Path) -> Path:
    return folder / "notes" / "SKILL.md"


def test_a_missing_skill_is_copied(folder: Path, file: Path) -> None:
    assert sync_skills(folder, [OLD]) == SkillSync(copied=("notes",))
    assert file.read_text() == OLD.text


def test_a_deleted_skill_is_copied_again(folder: Path, file: Path) -> None:
    sync_skills(folder, [OLD])
    file.unlink()

    assert sync_skills(folder, [OLD]) == SkillSync(copied=("notes",))


def test_an_older_skill_is_replaced(folder: Path, file: Path) -> None:
    sync_skills(folder, [OLD])

    assert sync_skills(folder, [NEW]) == SkillSync(updated=("notes",))
    assert file.read_text() == NEW.text
    assert sync_skills(folder, [NEW]) == SkillSync()


def test_a_newer_skill_stays_and_can_still_be_updated(folder: Path, file: Path) -> None:
    sync_skills(folder, [NEW])

    assert sync_skills(folder, [OLD]) == SkillSync()
    assert file.read_text() == NEW.text
    assert sync_skills(folder, [skill(3)]) == SkillSync(updated=("notes",))


def test_a_changed_text_with_the_same_version_is_not_copied(folder: Path, file: Path) -> None:
    sync_skills(folder, [OLD])

    assert sync_skills(folder, [skill(1, "same version")]) == SkillSync()
    assert file.read_text() == OLD.text


def test_an_edited_skill_is_kept_and_reported(folder: Path, file: Path) -> None:
    sync_skills(folder, [OLD])
    file.write_text(OLD.text + "mine\n")

    assert sync_skills(folder, [NEW]) == SkillSync(kept=("notes",))
    assert sync_skills(folder, [NEW]) == SkillSync(kept=("notes",))
    assert file.read_text() == OLD.text + "mine\n"


def test_a_reverted_edit_allows_updates_again(folder: Path, file: Path) -> None:
    sync_skills(folder, [OLD])
    file.write_text("mine")
    sync_skills(folder, [NEW])
    file.write_text(OLD.text)

    assert sync_skills(folder, [NEW]) == SkillSync(updated=("notes",))


def test_an_existing_skill_of_the_same_name_is_kept(folder: Path, file: Path) -> None:
    file.parent.mkdir()
    file.write_text("---\nname: notes\nversion: 0\n---\n")

    assert sync_skills(folder, [OLD]) == SkillSync(kept=("notes",))


def test_skills_and_files_of_the_owner_are_untouched(folder: Path) -> None:
    mine = folder / "mine" / "SKILL.md"
    beside = folder / "notes" / "table.csv"
    for path in (mine, beside):
        path.parent.mkdir()
        path.write_text("x")

    sync_skills(folder, [OLD])
    sync_skills(folder, [NEW])

    assert (mine.read_text(), beside.read_text()) == ("x", "x")


@pytest.mark.parametrize("before", [[], [OLD]])
def test_a_skill_is_still_updated_after_a_crash_before_its_record(
    folder: Path, file: Path, before: list[DefaultSkill], monkeypatch: pytest.MonkeyPatch
) -> None:
    sync_skills(folder, before)
    record = (folder / RECORD).read_bytes() if before else None
    sync_skills(folder, [NEW])
    if record is None:
        (folder / RECORD).unlink()
    else:
        (folder / RECORD).write_bytes(record)

    assert sync_skills(folder, [NEW]) == SkillSync()
    assert sync_skills(folder, [skill(3)]) == SkillSync(updated=("notes",))


@pytest.mark.parametrize("text", ["{", "[]", '{"written": 1}', '{"written": {"notes": 1}}', "[" * 60_000, "\xff"])
def test_a_damaged_record_loses_no_edit(folder: Path, file: Path, text: str) -> None:
    sync_skills(folder, [OLD])
    file.write_text("mine")
    (folder / RECORD).write_text(text)

    assert sync_skills(folder, [NEW]) == SkillSync(kept=("notes",))
    assert file.read_text() == "mine"


def test_a_record_cannot_name_files_outside(folder: Path, tmp_path: Path) -> None:
    (folder / RECORD).write_text(json.dumps({"written": {"../elsewhere": "0"}}))

    assert sync_skills(folder, [OLD]) == SkillSync(copied=("notes",))
    assert not (tmp_path.parent / "elsewhere").exists()


@pytest.mark.parametrize("linked", ["notes", "notes/SKILL.md"])
@pytest.mark.parametrize("is_there", [True, False])
def test_nothing_is_written_through_a_link(folder: Path, linked: str, is_there: bool) -> None:
    target = folder.parent / f"{folder.name}-target"
    link = folder / linked
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)
    if is_there:
        target.mkdir()

    assert sync_skills(folder, [OLD]) == SkillSync(kept=("notes",))
    assert not is_there or not list(target.iterdir())


@pytest.mark.parametrize("make", [Path.touch, lambda place: (place / "SKILL.md").mkdir(parents=True)])
def test_a_file_or_folder_in_place_of_a_skill_is_kept(folder: Path, make: object) -> None:
    assert callable(make)
    make(folder / "notes")

    assert sync_skills(folder, [OLD, DefaultSkill("other", 1, "x")]) == SkillSync(copied=("other",), kept=("notes",))


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="notes"):
        sync_skills(tmp_path / "nowhere", [OLD])


@pytest.mark.parametrize(
    ("said", "version"), [("3", 3), ("03", 3), ("x", 0), ("1.2", 0), ("-1", 0), ("²", 0), ("9" * 5_000, 0), ("", 0)]
)
def test_an_invalid_version_is_zero(said: str, version: int) -> None:
    assert version_of(f"---\nversion: {said}\n---\n") == version


def test_skills_are_listed_by_id_with_name_and_description(folder: Path) -> None:
    sync_skills(folder)
    (folder / "zoo").mkdir()
    (folder / "zoo" / "SKILL.md").write_text("no front matter")
    (folder / "bare").mkdir()
    (folder / "stray.md").touch()

    listed = list_skills(folder)

    assert [one.id for one in listed] == [*(one.id for one in default_skills()), "zoo"]
    assert listed[-1] == Skill("zoo", "zoo", "")
    assert all(one.name == one.id and one.description for one in listed[:-1])


def test_an_emptied_skill_stays_off(folder: Path, file: Path) -> None:
    sync_skills(folder, [OLD])
    file.write_text("")

    assert list_skills(folder) == ()
    assert sync_skills(folder, [NEW]) == SkillSync(kept=("notes",))
    assert file.read_text() == ""


def test_a_description_is_one_bounded_line(folder: Path, file: Path) -> None:
    file.parent.mkdir()
    file.write_text(f"---\ndescription: >\n  a\n  b {'x' * 3_000}\n---\n")

    (listed,) = list_skills(folder)

    assert listed.description.startswith("a b x")
    assert len(listed.description) == 1_024


def test_pipes_and_broken_links_do_not_break_the_list(folder: Path) -> None:
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe" / "SKILL.md")
    (folder / "link").symlink_to("link")

    assert list_skills(folder) == ()
    assert list_skills(folder / "nowhere") == ()
