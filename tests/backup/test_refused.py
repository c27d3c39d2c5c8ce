"""An archive that is not what it should be is refused, and the home stays as it is, byte for byte."""

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

from tests.backup.conftest import NOW, made, state
from tinyagi.backup.manifest import ArchiveRefused, BackupError
from tinyagi.backup.restore import restore
from tinyagi.settings.home import Home
from tinyagi.store.migrations import load_migrations

Fields = dict[str, Any]
Entries = dict[str, bytes]


@pytest.fixture
def archive(home: Home, tmp_path: Path) -> Path:
    return made(home, to=tmp_path / "good.zip", with_workspaces=True).path


def forged(archive: Path, change: Callable[[Fields, Entries], None], name: str = "forged.zip") -> Path:
    """The same archive with another list of contents, or other files; what is new is announced truthfully."""
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


def announce(fields: Fields, entries: Entries, name: str, content: bytes = b"x") -> None:
    entries[name] = content
    fields["files"] = [file for file in fields["files"] if file["name"] != name]
    digest = hashlib.sha256(content).hexdigest()
    fields["files"].append({"name": name, "size": len(content), "sha256": digest, "mode": 0o600, "modified": 0})


def refused(archive: Path, home: Home, reason: str) -> None:
    before, beside = state(home.path), sorted(home.path.parent.rglob("*"))

    with pytest.raises(BackupError, match=reason) as refusal:
        restore(archive, home, now=NOW)

    assert state(home.path) == before
    assert sorted(home.path.parent.rglob("*")) == beside, "nothing lies beside the workspaces either"
    assert str(refusal.value).endswith(".")


def test_a_forged_archive_that_is_true_is_taken(home: Home, archive: Path) -> None:
    """So that the others are refused for what is wrong with them."""
    restore(forged(archive, lambda *_: None), home, now=NOW)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_archive(home: Home, archive: Path, share: float) -> None:
    os.truncate(archive, int(archive.stat().st_size * share))

    refused(archive, home, "is not a TinyAGI backup, or it is damaged")


def test_a_byte_that_was_changed(home: Home, archive: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        place = packed.getinfo("home/tinyagi.db").header_offset + 1_000
    content = bytearray(archive.read_bytes())
    content[place] ^= 0xFF
    archive.write_bytes(content)

    refused(archive, home, "is damaged")


def test_a_file_that_is_not_the_one_of_the_checksum(home: Home, archive: Path) -> None:
    def change(_: Fields, entries: Entries) -> None:
        entries["home/files/note.txt"] = b"an attachmenT"

    refused(forged(archive, change), home, "note.txt does not match the list of contents")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x05\x06" + bytes(18)])
def test_a_file_of_another_program(home: Home, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.zip").write_bytes(content)

    refused(tmp_path / "other.zip", home, "is not a TinyAGI backup")


@pytest.mark.parametrize("manifest", ["[]", "{", '{"kind": "other"}', "[" * 100_000])
def test_a_zip_of_another_program(home: Home, tmp_path: Path, manifest: str) -> None:
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as packed:
        packed.writestr("manifest.json", manifest)

    refused(tmp_path / "other.zip", home, "is not a TinyAGI backup")


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
def test_a_name_that_leads_elsewhere(home: Home, archive: Path, name: str) -> None:
    refused(
        forged(archive, lambda fields, entries: announce(fields, entries, name)), home, "is not an entry of a backup"
    )


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_an_entry_that_is_no_file(home: Home, archive: Path, kind: int) -> None:
    path = archive.with_name("forged.zip")
    with zipfile.ZipFile(archive) as packed, zipfile.ZipFile(path, "w") as forged_one:
        for info in packed.infolist():
            if info.filename == "home/settings.json":
                info.external_attr = (kind | 0o777) << 16
            forged_one.writestr(info, packed.read(info.filename))

    refused(path, home, "settings.json does not match the list of contents")


@pytest.mark.parametrize("target", ["/etc", "../../..", "..", "../coder2/x", ""])
def test_a_link_that_leads_out(home: Home, archive: Path, target: str) -> None:
    def change(fields: Fields, _: Entries) -> None:
        fields["links"]["workspaces/coder/out"] = target

    refused(forged(archive, change), home, "the link 'workspaces/coder/out' points outside its folder")


def test_a_file_below_a_link(home: Home, archive: Path) -> None:
    def change(fields: Fields, entries: Entries) -> None:
        announce(fields, entries, "workspaces/coder/.claude/skills/x")

    refused(forged(archive, change), home, "is below an entry that is not a folder")


def test_more_files_than_are_announced(home: Home, archive: Path) -> None:
    refused(
        forged(archive, lambda _, entries: entries.update({"home/files/more": b""})),
        home,
        "its files do not match its list of contents",
    )


def test_fewer_files_than_are_announced(home: Home, archive: Path) -> None:
    def change(_: Fields, entries: Entries) -> None:
        del entries["home/files/note.txt"]

    refused(forged(archive, change), home, "its files do not match its list of contents")


def test_an_archive_without_a_database(home: Home, archive: Path) -> None:
    def change(fields: Fields, entries: Entries) -> None:
        del entries["home/tinyagi.db"]
        fields["files"] = [file for file in fields["files"] if file["name"] != "home/tinyagi.db"]

    refused(forged(archive, change), home, "there is no database in it")


def test_a_later_format(home: Home, archive: Path) -> None:
    refused(forged(archive, lambda fields, _: fields.update(format=2)), home, "format 2, and this version reads")


def test_a_newer_schema(home: Home, archive: Path, tmp_path: Path) -> None:
    newest = load_migrations()[-1][0]

    def change(fields: Fields, entries: Entries) -> None:
        path = tmp_path / "newer.db"
        path.write_bytes(entries["home/tinyagi.db"])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT INTO schema_migrations VALUES (?, 'later', '', 0)", (newest + 1,))
        announce(fields, entries, "home/tinyagi.db", path.read_bytes())
        path.unlink()

    refused(forged(archive, change), home, f"made by a newer TinyAGI .schema {newest + 1}, this version knows {newest}")


@pytest.mark.parametrize("content", [b"garbage" * 1_000, b""])
def test_a_database_that_is_none(home: Home, archive: Path, content: bytes) -> None:
    change = forged(archive, lambda fields, entries: announce(fields, entries, "home/tinyagi.db", content))

    refused(change, home, "The database in .* (is damaged|cannot be read)")


def test_a_database_with_a_broken_page(home: Home, archive: Path) -> None:
    def change(fields: Fields, entries: Entries) -> None:
        content = bytearray(entries["home/tinyagi.db"])
        content[8192:40_960] = os.urandom(32_768)
        announce(fields, entries, "home/tinyagi.db", bytes(content))

    refused(forged(archive, change), home, "The database in .* (is damaged|cannot be read)")


def test_an_archive_that_is_not_there(home: Home, tmp_path: Path) -> None:
    refused(tmp_path / "none.zip", home, "There is no backup at")


def test_a_refusal_names_the_archive(home: Home, archive: Path) -> None:
    os.truncate(archive, 100)

    with pytest.raises(ArchiveRefused, match=str(archive)):
        restore(archive, home, now=NOW)
