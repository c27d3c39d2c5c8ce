"""Reading and writing texts that other programs may change."""

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


def test_a_text_at_the_limit_is_not_shortened(tmp_path: Path) -> None:
    (tmp_path / "fits.md").write_text("x" * TEXT_LIMIT)

    assert read_text(tmp_path / "fits.md") == "x" * TEXT_LIMIT


def test_a_cut_inside_a_character_drops_it(tmp_path: Path) -> None:
    (tmp_path / "long.md").write_text("é" * HEAD_LIMIT)
    (tmp_path / "odd.md").write_text("x" + "é" * HEAD_LIMIT)

    assert set(read_head(tmp_path / "long.md")) == {"é"}
    assert set(read_head(tmp_path / "odd.md")) == {"x", "é"}


def test_invalid_utf8_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "binary.md").write_bytes(b"\xef\xbb\xbfa\xff\x00b")

    assert read_text(tmp_path / "binary.md") == "a\ufffd\ufffdb"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_folders_and_pipes_are_refused_without_blocking(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / "odd.md")

    with pytest.raises(WorkspaceError, match="should be a regular file"):
        read_text(tmp_path / "odd.md")
    assert read_head(tmp_path / "odd.md") == ""


def test_a_circular_link_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.md").symlink_to("a.md")

    with pytest.raises(WorkspaceError, match="circular link"):
        read_text(tmp_path / "a.md")


def test_create_does_not_overwrite_a_text(tmp_path: Path) -> None:
    assert create_text(tmp_path / "a.md", "first")
    assert not create_text(tmp_path / "a.md", "second")

    assert (tmp_path / "a.md").read_text() == "first"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.md"]


def test_a_text_created_concurrently_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("owner")
    monkeypatch.setattr(os.path, "lexists", lambda _: False)

    assert not create_text(tmp_path / "a.md", "ours")
    assert (tmp_path / "a.md").read_text() == "owner"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.md"]


def test_texts_are_created_on_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)

    assert create_text(tmp_path / "a.md", "text")
    assert not create_text(tmp_path / "a.md", "other")
    assert (tmp_path / "a.md").read_text() == "text"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.md"]


def test_replace_keeps_the_mode_and_replaces_a_link_not_its_target(tmp_path: Path) -> None:
    (tmp_path / "target.md").write_text("theirs")
    (tmp_path / "target.md").chmod(0o600)
    (tmp_path / "link.md").symlink_to("target.md")

    replace_text(tmp_path / "link.md", "ours")

    assert (tmp_path / "target.md").read_text() == "theirs"
    assert (tmp_path / "link.md").read_text() == "ours"
    assert (tmp_path / "link.md").lstat().st_mode & 0o777 == 0o600


def test_a_full_disk_keeps_the_old_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("old")

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)

    with pytest.raises(WorkspaceError, match="Free some space"):
        replace_text(tmp_path / "a.md", "new")
    assert (tmp_path / "a.md").read_text() == "old"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.md"]


def test_an_unexpected_error_is_reported_with_the_systems_message() -> None:
    with pytest.raises(WorkspaceError, match=r"cannot be used: odd. Check the path"), as_workspace_error(Path("x")):
        raise OSError(errno.EIO, "odd")
