"""An invalid archive is refused, and the home stays unchanged, byte for byte."""

import hashlib
import json
import os
import sqlite3
import stat
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.backup.conftest import NOW, create_backup, state
from tinyagi.backup.manifest import ArchiveRefused, BackupError
from tinyagi.backup.restore import restore
from tinyagi.settings.home import Home
from tinyagi.store.migrations import load_migrations

Fields = dict[str, Any]
Entries = dict[str, bytes]


@pytest.fixture
def archive(home: Home, tmp_path: Path) -> Path:
    return create_backup(home, to=tmp_path / "good.zip", with_workspaces=True).path


def forge(archive: Path, change: Callable[[Fields, Entries], None], name: str = "forged.zip") -> Path:
    """A copy of the archive with a changed manifest or changed files."""
    with zipfile.ZipFile(archive) as packed:
        entries = {info.filename: packed.read(info) for info in packed.infolist()}
    fields = json.loads(entries.pop("manifest.json"))
    change(fields, entries)
    path = archive.with_name(name)
    with zipfile.ZipFile(path, "w") as packed:
        for entry, content in entries.items():
            packed.writestr(entry, content)
        packed.writestr("manifest.json", json.dumps(fields))
    return path


def add_file(fields: Fields, entries: Entries, name: str, content: bytes = b"x") -> None:
    entries[name] = content
    fields["files"] = [file for file in fields["files"] if file["name"] != name]
    digest = hashlib.sha256(content).hexdigest()
    fields["files"].append({"name": name, "size": len(content), "sha256": digest, "mode": 0o600, "modified": 0})


def assert_restore_refused(archive: Path, home: Home, reason: str) -> None:
    before, beside = state(home.path), sorted(home.path.parent.rglob("*"))

    with pytest.raises(BackupError, match=reason) as refusal:
        restore(archive, home, now=NOW)

    assert state(home.path) == before
    assert sorted(home.path.parent.rglob("*")) == beside, "no files were left beside the workspaces"
    assert str(refusal.value).endswith(".")


def test_an_unchanged_copy_of_an_archive_is_restored(home: Home, archive: Path) -> None:
    """Proves that the other archives are refused for their changes."""
    restore(forge(archive, lambda *_: None), home, now=NOW)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_archive_is_refused(home: Home, archive: Path, share: float) -> None:
    os.truncate(archive, int(archive.stat().st_size * share))

    assert_restore_refused(archive, home, "is not a TinyAGI backup, or it is damaged")


def test_an_archive_with_a_flipped_byte_is_refused(home: Home, archive: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        place = packed.getinfo("home/tinyagi.db").header_offset + 1_000
    content = bytearray(archive.read_bytes())
    content[place] ^= 0xFF
    archive.write_bytes(content)

    assert_restore_refused(archive, home, "is damaged")


def test_a_file_with_a_wrong_checksum_is_refused(home: Home, archive: Path) -> None:
    def change(_: Fields, entries: Entries) -> None:
        entries["home/files/note.txt"] = b"an attachmenT"

    assert_restore_refused(forge(archive, change), home, "note.txt does not match the list of contents")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x05\x06" + bytes(18)])
def test_a_foreign_file_is_refused(home: Home, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.zip").write_bytes(content)

    assert_restore_refused(tmp_path / "other.zip", home, "is not a TinyAGI backup")


@pytest.mark.parametrize("manifest", ["[]", "{", '{"kind": "other"}', "[" * 100_000])
def test_a_foreign_zip_is_refused(home: Home, tmp_path: Path, manifest: str) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as packed:
        packed.writestr("manifest.json", manifest)

    assert_restore_refused(tmp_path / "other.zip", home, "is not a TinyAGI backup")


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "/etc/outside",
        "home/../../outside",
        "home/files/../../../outside",
        "home//outside",
        "home/./outside",
        "home/files/a\\..\\b",
        "home",
        "home/tinyagi.pid",
        "home/tinyagi.db-wal",
        "home/restore.json",
        "home/backups/x",
        "workspaces/..",
        "workspaces/../x",
        "other/x",
    ],
)
def test_an_entry_outside_the_home_is_refused(home: Home, archive: Path, name: str) -> None:
    assert_restore_refused(
        forge(archive, lambda fields, entries: add_file(fields, entries, name)), home, "is not an entry of a backup"
    )


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_an_entry_with_a_special_mode_is_refused(home: Home, archive: Path, kind: int) -> None:
    path = archive.with_name("forged.zip")
    with zipfile.ZipFile(archive) as packed, zipfile.ZipFile(path, "w") as forged_one:
        for info in packed.infolist():
            if info.filename == "home/settings.json":
                info.external_attr = (kind | 0o777) << 16
            forged_one.writestr(info, packed.read(info.filename))

    assert_restore_refused(path, home, "settings.json does not match the list of contents")


@pytest.mark.parametrize("target", ["/etc", "../../..", "..", "../coder2/x", ""])
def test_a_link_to_outside_is_refused(home: Home, archive: Path, target: str) -> None:
    def change(fields: Fields, _: Entries) -> None:
        fields["links"]["workspaces/coder/out"] = target

    assert_restore_refused(forge(archive, change), home, "the link 'workspaces/coder/out' points outside its folder")


def test_a_file_below_a_link_is_refused(home: Home, archive: Path) -> None:
    def change(fields: Fields, entries: Entries) -> None:
        add_file(fields, entries, "workspaces/coder/.claude/skills/x")

    assert_restore_refused(forge(archive, change), home, "is below an entry that is not a folder")


def test_more_files_than_are_add_filed(home: Home, archive: Path) -> None:
    assert_restore_refused(
        forge(archive, lambda _, entries: entries.update({"home/files/more": b""})),
        home,
        "its files do not match its list of contents",
    )


def test_fewer_files_than_are_add_filed(home: Home, archive: Path) -> None:
    def change(_: Fields, entries: Entries) -> None:
        del entries["home/files/note.txt"]

    assert_restore_refused(forge(archive, change), home, "its files do not match its list of contents")


def test_an_archive_without_a_database_is_refused(home: Home, archive: Path) -> None:
    def change(fields: Fields, entries: Entries) -> None:
        del entries["home/tinyagi.db"]
        fields["files"] = [file for file in fields["files"] if file["name"] != "home/tinyagi.db"]

    assert_restore_refused(forge(archive, change), home, "there is no database in it")


def test_a_later_format_is_refused(home: Home, archive: Path) -> None:
    assert_restore_refused(
        forge(archive, lambda fields, _: fields.update(format=2)), home, "format 2, and this version reads"
    )


def test_a_newer_schema_is_refused(home: Home, archive: Path, tmp_path: Path) -> None:
    newest = load_migrations()[-1][0]

    def change(fields: Fields, entries: Entries) -> None:
        path = tmp_path / "newer.db"
        path.write_bytes(entries["home/tinyagi.db"])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT INTO schema_migrations VALUES (?, 'later', '', 0)", (newest + 1,))
        add_file(fields, entries, "home/tinyagi.db", path.read_bytes())
        path.unlink()

    assert_restore_refused(
        forge(archive, change), home, f"made by a newer TinyAGI .schema {newest + 1}, this version knows {newest}"
    )


@pytest.mark.parametrize("content", [b"garbage" * 1_000, b""])
def test_a_file_that_is_not_a_database_is_refused(home: Home, archive: Path, content: bytes) -> None:
    change = forge(archive, lambda fields, entries: add_file(fields, entries, "home/tinyagi.db", content))

    assert_restore_refused(change, home, "The database in .* (is damaged|cannot be read)")


def test_a_database_with_a_broken_page_is_refused(home: Home, archive: Path) -> None:
    def change(fields: Fields, entries: Entries) -> None:
        content = bytearray(entries["home/tinyagi.db"])
        content[8192:40_960] = os.urandom(32_768)
        add_file(fields, entries, "home/tinyagi.db", bytes(content))

    assert_restore_refused(forge(archive, change), home, "The database in .* (is damaged|cannot be read)")


def test_a_missing_archive_is_refused(home: Home, tmp_path: Path) -> None:
    assert_restore_refused(tmp_path / "none.zip", home, "There is no backup at")


def test_a_refusal_names_the_archive(home: Home, archive: Path) -> None:
    os.truncate(archive, 100)

    with pytest.raises(ArchiveRefused, match=str(archive)):
        restore(archive, home, now=NOW)
