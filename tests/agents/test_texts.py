"""Reading and writing texts that others may have a hand in."""

import errno
import os
from pathlib import Path

import pytest

from tinyagi.agents.workspace_files import (
    HEAD_LIMIT,
    TEXT_LIMIT,
    WorkspaceError,
    as_workspace_error,
    create_text,
    read_head,
    read_text,
    replace_text,
)


def test_a_missing_text_is_none(tmp_path: Path) -> None:
    assert read_text(tmp_path / "none.md") is None
    assert read_head(tmp_path / "none.md") == ""


def test_a_long_text_is_shortened_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "long.md").write_text("x" * (TEXT_LIMIT + 1))

    text = read_text(tmp_path / "long.md")

    assert text == "x" * TEXT_LIMIT + "\n\n[long.md is longer than 64 KiB; the rest is left out.]"


def test_a_text_that_just_fits_is_whole(tmp_path: Path) -> None:
    (tmp_path / "fits.md").write_text("x" * TEXT_LIMIT)

    assert read_text(tmp_path / "fits.md") == "x" * TEXT_LIMIT


def test_a_cut_through_a_character_leaves_no_half(tmp_path: Path) -> None:
    (tmp_path / "long.md").write_text("é" * HEAD_LIMIT)
    (tmp_path / "odd.md").write_text("x" + "é" * HEAD_LIMIT)

    assert set(read_head(tmp_path / "long.md")) == {"é"}
    assert set(read_head(tmp_path / "odd.md")) == {"x", "é"}


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "binary.md").write_bytes(b"\xef\xbb\xbfa\xff\x00b")

    assert read_text(tmp_path / "binary.md") == "a\ufffd\ufffdb"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_regular_file_is_refused_and_never_waited_for(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / "odd.md")

    with pytest.raises(WorkspaceError, match="should be a regular file"):
        read_text(tmp_path / "odd.md")
    assert read_head(tmp_path / "odd.md") == ""


def test_a_link_in_circles_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.md").symlink_to("a.md")

    with pytest.raises(WorkspaceError, match="circular link"):
        read_text(tmp_path / "a.md")


def test_a_text_is_created_only_where_nothing_is(tmp_path: Path) -> None:
    assert create_text(tmp_path / "a.md", "first")
    assert not create_text(tmp_path / "a.md", "second")

    assert (tmp_path / "a.md").read_text() == "first"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.md"]


def test_whoever_creates_a_text_meanwhile_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("owner")
    monkeypatch.setattr(os.path, "lexists", lambda _: False)

    assert not create_text(tmp_path / "a.md", "ours")
    assert (tmp_path / "a.md").read_text() == "owner"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.md"]


def test_a_file_system_without_links_gets_its_texts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)

    assert create_text(tmp_path / "a.md", "text")
    assert not create_text(tmp_path / "a.md", "other")
    assert (tmp_path / "a.md").read_text() == "text"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.md"]


def test_replacing_keeps_the_rights_and_replaces_a_link_instead_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "target.md").write_text("theirs")
    (tmp_path / "target.md").chmod(0o600)
    (tmp_path / "link.md").symlink_to("target.md")

    replace_text(tmp_path / "link.md", "ours")

    assert (tmp_path / "target.md").read_text() == "theirs"
    assert (tmp_path / "link.md").read_text() == "ours"
    assert (tmp_path / "link.md").lstat().st_mode & 0o777 == 0o600


def test_a_full_disk_leaves_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("old")

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)

    with pytest.raises(WorkspaceError, match="Free some space"):
        replace_text(tmp_path / "a.md", "new")
    assert (tmp_path / "a.md").read_text() == "old"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.md"]


def test_an_error_that_nobody_foresaw_is_told_as_the_system_puts_it() -> None:
    with pytest.raises(WorkspaceError, match=r"cannot be used: odd. Check the path"), as_workspace_error(Path("x")):
        raise OSError(errno.EIO, "odd")
