"""The settings file on a real disk: writes, backups and refused content."""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.settings.conftest import backups, stored, write
from tinyagi.settings import settings_file
from tinyagi.settings.errors import InvalidSettings, SettingsBusy, SettingsFailed, UnreadableSettings
from tinyagi.settings.home import Home
from tinyagi.settings.secrets import masked
from tinyagi.settings.settings_file import SettingsFile
from tinyagi.system.files import put_in_place, write_aside


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_missing_file_is_read_as_none(home: Home) -> None:
    assert SettingsFile(home).read() is None
    assert SettingsFile(home).content() is None
    assert SettingsFile(home).stamp() is None


def test_a_patch_is_merged_into_the_stored_settings(home: Home) -> None:
    write(home, {"unknown": {"a": 1}, "agents": {"coder": {"model": "opus", "mine": True}}})

    loaded = SettingsFile(home).update({"agents": {"coder": {"name": "Coder"}, "writer": {}}, "unknown": {"b": None}})

    assert stored(home) == {
        "unknown": {"a": 1},
        "agents": {"coder": {"model": "opus", "mine": True, "name": "Coder"}, "writer": {}},
    }
    assert loaded.raw == stored(home)
    assert loaded.settings.agents["coder"].name == "Coder"
    assert loaded.content == home.settings_file.read_bytes()


def test_null_removes_a_setting(home: Home) -> None:
    write(home, {"agents": {"coder": {"model": "opus"}, "writer": {}}})

    SettingsFile(home).update({"agents": {"coder": {"model": None}, "writer": None}})

    assert stored(home) == {"agents": {"coder": {}}}


def test_the_file_is_indented_and_private(home: Home) -> None:
    write(home, {"workspace": {"name": "Büro"}})
    home.settings_file.chmod(0o644)

    SettingsFile(home).update({"default_agent": "tinyagi"})

    assert home.settings_file.read_text(encoding="utf-8") == (
        '{\n  "workspace": {\n    "name": "Büro"\n  },\n  "default_agent": "tinyagi"\n}\n'
    )
    assert mode(home.settings_file) == 0o600
    assert all(mode(path) == 0o600 for path in backups(home))


def test_an_invalid_result_changes_nothing(home: Home) -> None:
    write(home, {"agents": {"coder": {}}, "teams": {"dev": {"agents": ["coder"], "leader_agent": "coder"}}})
    before = home.settings_file.read_bytes()

    with pytest.raises(InvalidSettings, match="there is no agent 'coder'"):
        SettingsFile(home).update({"agents": {"coder": None, "writer": {}}})

    assert home.settings_file.read_bytes() == before
    assert backups(home) == []


def test_a_patch_can_fix_invalid_settings(home: Home) -> None:
    write(home, {"agents": {"coder": {"provider": "claud"}}, "mine": 1})

    SettingsFile(home).update({"agents": {"coder": {"provider": "anthropic"}}})

    assert stored(home) == {"agents": {"coder": {"provider": "anthropic"}}, "mine": 1}


def test_updating_with_masked_settings_writes_nothing(home: Home) -> None:
    write(home, {"models": {"openai": {"api_key": "sk-0123456789abcdef"}}, "odd": {"token": "x", "null": None}})
    before = home.settings_file.stat()
    raw = stored(home)

    SettingsFile(home).update(masked(raw))

    assert stored(home) == raw
    assert home.settings_file.stat() == before
    assert backups(home) == []


def test_an_edit_gets_the_stored_settings(home: Home) -> None:
    write(home, {"channels": {"enabled": ["discord"]}})

    def enable(raw: Mapping[str, object]) -> Mapping[str, object]:
        channels = raw["channels"]
        assert isinstance(channels, dict)
        return {"channels": {"enabled": [*channels["enabled"], "telegram"]}}

    assert SettingsFile(home).edit(enable).settings.channels.enabled == ("discord", "telegram")


def test_a_patch_without_a_file_starts_from_the_given_settings(home: Home) -> None:
    SettingsFile(home).update({"default_agent": "tinyagi"}, without_file={"mine": 1})

    assert stored(home) == {"mine": 1, "default_agent": "tinyagi"}


def test_create_does_not_replace_an_existing_file(home: Home) -> None:
    document = SettingsFile(home)

    first = document.create({"agents": {"a": {}}})
    second = document.create({"agents": {"b": {}}})

    assert first.raw == second.raw == stored(home) == {"agents": {"a": {}}}


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ('{\n  "agents": {\n    "coder": {}\n  \n', 5, 1, "Expecting"),
        ('{"a" 1}', 1, 6, "Expecting ':'"),
        ("", 1, 1, "Expecting value"),
        ("\n\n nonsense", 3, 2, "Expecting value"),
        ("[]", 1, 1, "begin with {"),
        ('{"a": NaN}', 1, 1, "NaN is not a number"),
        ('{"agents": {}, "agents": {}}', 1, 1, "'agents' occurs twice"),
        ('{"a":' * 100 + "1" + "}" * 100, 1, 1, "more than 64 deep"),
        ("[" * 100_000, 1, 1, "more than 64 deep"),
        ('{"a": ' + "9" * 5000 + "}", 1, 1, "integer string"),
    ],
)
def test_invalid_json_is_reported_with_line_and_column_and_unchanged(
    home: Home, text: str, line: int, column: int, reason: str
) -> None:
    home.settings_file.write_text(text)
    document = SettingsFile(home)

    for attempt in (document.read, lambda: document.update({"mine": 1}), lambda: document.create({"mine": 1})):
        with pytest.raises(UnreadableSettings, match=reason) as caught:
            attempt()
        assert (caught.value.line, caught.value.column) == (line, column)
        assert f"{home.settings_file} is not valid: line {line}, column {column}: " in str(caught.value)

    assert home.settings_file.read_text() == text


def test_invalid_utf_8_is_reported_with_line_and_column(home: Home) -> None:
    home.settings_file.write_bytes(b'{\n "name": "B\xfcro"}')

    with pytest.raises(UnreadableSettings, match="line 2, column 12: this is not UTF-8"):
        SettingsFile(home).read()


def test_a_byte_order_mark_is_ignored(home: Home) -> None:
    home.settings_file.write_bytes(b'\xef\xbb\xbf{"agents": {"coder": {}}}')

    assert SettingsFile(home).update({"mine": 1}).raw == {"agents": {"coder": {}}, "mine": 1}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {"\udfff": 1}])
def test_a_value_without_a_json_form_is_refused(home: Home, value: object) -> None:
    with pytest.raises(InvalidSettings):
        SettingsFile(home).update({"unknown": value})

    assert not home.settings_file.exists()


def test_a_patch_nested_too_deeply_is_refused(home: Home) -> None:
    deep: dict[str, object] = {}
    for _ in range(5000):
        deep = {"x": deep}

    with pytest.raises(InvalidSettings, match="64 deep"):
        SettingsFile(home).update(deep)
    with pytest.raises(InvalidSettings, match="64 deep"):
        SettingsFile(home).create(deep)


def test_the_error_for_a_broken_file_names_the_newest_valid_backup(home: Home) -> None:
    document = SettingsFile(home)
    document.update({"mine": 1})
    document.update({"mine": 2})
    good = backups(home)[-1]
    (home.backups / "settings-29990101T000000.000000Z.json").write_text('{"agents": {"Bad Id": {}}}')
    (home.backups / "settings-29990102T000000.000000Z.json").write_text("{")
    home.settings_file.write_text('{"mine": 3')

    with pytest.raises(UnreadableSettings) as caught:
        document.read()

    assert caught.value.backup == good
    assert json.loads(good.read_text()) == {"mine": 2}
    assert f"cp '{good}' '{home.settings_file}'" in str(caught.value)


def test_the_error_for_invalid_settings_names_the_newest_valid_backup(home: Home) -> None:
    document = SettingsFile(home)
    document.update({"mine": 1})
    write(home, {"agents": {"coder": {"provider": "claud"}}})

    with pytest.raises(InvalidSettings, match="'claud' is not a provider") as caught:
        document.read()

    assert caught.value.backup == backups(home)[-1]
    assert caught.value.file == home.settings_file


def test_the_error_names_no_backup_when_none_is_valid(home: Home) -> None:
    home.settings_file.write_text("{")

    with pytest.raises(UnreadableSettings, match="Fix it there; nothing was changed") as caught:
        SettingsFile(home).read()

    assert caught.value.backup is None


def test_the_last_five_versions_are_backed_up_including_edits_by_hand(home: Home) -> None:
    document = SettingsFile(home)
    for number in range(4):
        document.update({"mine": number})
    write(home, {"mine": "by hand"})
    document.update({"mine": 5})
    (home.backups / "settings-of-somebody.json").write_text("{}")
    document.update({"mine": 6})

    kept = [json.loads(path.read_text())["mine"] for path in backups(home) if "somebody" not in path.name]

    assert kept == [2, 3, "by hand", 5, 6]
    assert (home.backups / "settings-of-somebody.json").exists()


def test_backups_stay_in_order_when_the_clock_is_set_back(home: Home) -> None:
    def clock() -> Iterator[datetime]:
        for days in (10, 5, 0):
            yield datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=days)

    document = SettingsFile(home, now=clock().__next__)
    for number in range(3):
        document.update({"mine": number})

    assert [json.loads(path.read_text())["mine"] for path in backups(home)] == [0, 1, 2]


def test_a_version_is_backed_up_once(home: Home) -> None:
    document = SettingsFile(home)
    write(home, {"mine": 1})

    document.keep_backup(home.settings_file.read_bytes())
    document.keep_backup(home.settings_file.read_bytes())

    assert len(backups(home)) == 1


def test_a_link_stays_a_link(home: Home, tmp_path: Path) -> None:
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    target = dotfiles / "tinyagi.json"
    target.write_text('{"mine": 1}')
    home.settings_file.symlink_to(target)

    SettingsFile(home).update({"mine": 2})

    assert home.settings_file.is_symlink()
    assert json.loads(target.read_text()) == {"mine": 2}
    assert len(backups(home)) == 2


def test_a_link_to_a_missing_file_is_followed(home: Home, tmp_path: Path) -> None:
    home.settings_file.symlink_to(tmp_path / "later.json")

    SettingsFile(home).create({"mine": 1})

    assert json.loads((tmp_path / "later.json").read_text()) == {"mine": 1}


def test_a_link_to_itself_is_refused(home: Home) -> None:
    home.settings_file.symlink_to(home.settings_file)

    with pytest.raises(SettingsFailed):
        SettingsFile(home).read()
    with pytest.raises(SettingsFailed):
        SettingsFile(home).update({})


def test_a_file_system_error_is_reported(home: Home) -> None:
    home.settings_file.mkdir()

    with pytest.raises(SettingsFailed, match="cannot be read"):
        SettingsFile(home).read()
    with pytest.raises(SettingsFailed, match="cannot be written"):
        SettingsFile(Home(home.path / "missing")).update({})


def test_a_full_disk_keeps_the_old_file(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, {"mine": 1})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(SettingsFailed, match="No space left"):
            SettingsFile(home).update({"mine": 2})
    assert stored(home) == {"mine": 1}

    SettingsFile(home).update({"mine": 3})
    assert stored(home) == {"mine": 3}
    assert {path.name for path in home.path.iterdir() if path.is_file()} == {"settings.json", ".settings.json.lock"}


def test_a_write_syncs_the_file_before_and_the_folder_after_the_replace(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    sync, replace = os.fsync, os.replace

    def syncing(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def replacing(source: Path, target: Path) -> None:
        steps.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "replace", replacing)
    put_in_place(write_aside(home.settings_file, b"{}"), home.settings_file)

    assert steps == ["file", "replace", "folder"]
    assert home.settings_file.read_bytes() == b"{}"


def test_waiting_for_the_lock_times_out(home: Home) -> None:
    write(home, {"mine": 1})

    with (
        settings_file.locked(home.settings_file),
        pytest.raises(SettingsBusy, match=r"keeps .*settings\.json locked"),
        settings_file.locked(home.settings_file, timeout=timedelta()),
    ):
        pytest.fail("the lock is held twice")

    assert SettingsFile(home).update({"mine": 2}).raw == {"mine": 2}


def test_a_stamp_changes_with_the_file(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    document = SettingsFile(home)
    write(home, {"mine": 1})
    assert document.stamp() is None, "too young to tell two writes apart"

    monkeypatch.setattr("tinyagi.settings.settings_file.time.time_ns", lambda: 1 << 62)
    first = document.stamp()
    assert first is not None
    assert document.stamp() == first
    document.update({"mine": 2})
    assert document.stamp() != first


def test_secrets_of_a_loaded_file_are_not_in_its_repr(home: Home) -> None:
    loaded = SettingsFile(home).update({"models": {"openai": {"api_key": "hidden"}}})

    assert "hidden" not in repr(loaded)


def test_make_private_does_not_change_the_content(home: Home) -> None:
    write(home, {"mine": 1})
    home.settings_file.chmod(0o644)

    SettingsFile(home).make_private()

    assert mode(home.settings_file) == 0o600
    SettingsFile(Home(home.path / "missing")).make_private()
