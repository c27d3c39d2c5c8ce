"""`tinyagi migrate` as people and programs call it."""

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.support.old_home import KEY, TOKEN, contents
from tinyagi.cli.error_boundary import ErrorBoundary
from tinyagi.cli.migrate import migrate
from tinyagi.legacy.old_home import OldHome
from tinyagi.settings.home import Home


@pytest.fixture(autouse=True)
def _no_tinyclaw_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TINYCLAW_HOME", str(tmp_path / "none"))


def call(*words: object) -> Result:
    app = typer.Typer(cls=ErrorBoundary)
    app.callback()(lambda: None)
    app.command()(migrate)
    return CliRunner().invoke(app, ["migrate", *map(str, words)])


def test_a_dry_run_shows_the_plan_and_changes_nothing(old: OldHome, home: Home) -> None:
    before = contents(old.path)

    result = call("--from", old.path, "--home", home.path, "--dry-run")

    assert result.exit_code == 0, result.output
    assert "schedules: orphan: there is no agent @gone." in result.stderr
    assert "nothing was changed" in result.stderr
    assert "messages" in result.stdout
    assert contents(old.path) == before
    assert not home.path.exists()


def test_yes_imports_and_prints_the_path_of_the_backup(old: OldHome, home: Home) -> None:
    result = call("--from", old.path, "--home", home.path, "--yes")

    assert result.exit_code == 0, result.output
    (backup,) = home.backups.glob("migration-*")
    assert str(backup) in result.stderr
    again = call("--from", old.path, "--home", home.path, "--yes")
    assert "nothing left to take over" in again.stderr
    assert list(home.backups.glob("migration-*")) == [backup]


def test_yes_is_required_without_a_terminal(old: OldHome, home: Home) -> None:
    result = call("--from", old.path, "--home", home.path)

    assert result.exit_code == 2
    assert "add --yes" in result.stderr
    assert not home.path.exists()


@pytest.mark.parametrize("option", ["--dry-run", "--yes"])
def test_stdout_is_json_without_secrets(old: OldHome, home: Home, option: str) -> None:
    result = call("--from", old.path, "--home", home.path, option, "--json")

    report = json.loads(result.stdout)
    assert report["applied"] == (option == "--yes")
    assert report["dryRun"] == (option == "--dry-run")
    assert (report["backup"] is not None) == report["applied"]
    parts = {part["name"]: part for part in report["parts"]}
    assert parts["tasks"]["taken"] == 4
    assert {"name": "orphan", "reason": "there is no agent @gone"} in parts["schedules"]["skipped"]
    assert TOKEN not in result.output
    assert KEY not in result.output


def test_json_alone_is_refused(old: OldHome, home: Home) -> None:
    result = call("--from", old.path, "--home", home.path, "--json")

    assert result.exit_code == 2
    assert "--dry-run" in result.stderr


def test_a_missing_old_home_is_reported_and_no_failure(home: Home) -> None:
    result = call("--home", home.path)

    assert result.exit_code == 0
    assert "nothing to take over" in result.stderr
    assert json.loads(call("--home", home.path, "--yes", "--json").stdout)["found"] is False
    assert not home.path.exists()


def test_a_running_daemon_is_reported_with_the_remedy(old: OldHome, home: Home) -> None:
    (old.path / "tinyagi.pid").write_text(str(os.getpid()))

    result = call("--from", old.path, "--home", home.path, "--yes")

    assert result.exit_code == 1
    assert "tinyagi stop" in result.stderr
    assert not home.path.exists()


def test_the_home_of_tinyclaw_is_found_without_an_option(
    old: OldHome, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINYCLAW_HOME", str(old.path))

    result = call("--home", home.path, "--dry-run", "--json")

    assert json.loads(result.stdout)["source"] == str(old.path)
