"""Each finding has a text and a remedy; a crashing check is a finding too."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.daemon.conftest import WriteSettings
from tests.daemon.test_pidfile import another_process
from tinyagi.daemon.doctor.examination import load_context, run_checks
from tinyagi.daemon.doctor.findings import CheckContext, Finding, Level, ok
from tinyagi.domain.ids import AgentId
from tinyagi.engine.inbox import Incoming
from tinyagi.settings.home import Home
from tinyagi.system import peer_user
from tinyagi.wiring import open_inbox


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Hides this machine: no programs, no keys, no old home."""
    (tmp_path / "bin").mkdir()
    return {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path), "TINYCLAW_HOME": str(tmp_path / "none")}


def findings(home: Home, environment: dict[str, str]) -> list[Finding]:
    return list(run_checks(load_context(home, environment)))


def about(title: str, found: list[Finding]) -> Finding:
    (one,) = [finding for finding in found if finding.title == title]
    return one


def program(environment: dict[str, str], name: str, script: str) -> None:
    path = Path(environment["PATH"]) / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)


def test_a_good_home_has_no_problem_and_every_hint_has_a_remedy(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings(server={"port": 0})

    found = findings(home, environment)

    assert {finding.level for finding in found} == {Level.OK, Level.HINT}
    assert all(finding.remedy for finding in found if finding.level is not Level.OK)
    assert len({finding.title for finding in found}) > 8


def test_a_missing_home_is_a_hint_and_is_not_created(tmp_path: Path, environment: dict[str, str]) -> None:
    home = Home(tmp_path / "not" / "yet")

    found = findings(home, environment)

    assert about("Home", found).level is Level.HINT
    assert about("Database", found).level is Level.HINT
    assert not home.path.parent.exists()


def test_broken_settings_are_reported_with_the_line(home: Home, environment: dict[str, str]) -> None:
    home.settings_file.write_text('{"agents": {,}}')

    (found,) = [one for one in findings(home, environment) if one.level is Level.PROBLEM]

    assert found.title == "Settings"
    assert "line 1" in found.found


def test_a_crashing_check_is_a_finding_and_the_next_check_runs(home: Home) -> None:
    def broken(subject: CheckContext) -> Iterator[Finding]:
        yield ok("First", "half of it")
        raise RuntimeError("boom\nboom")

    subject = CheckContext(home, {}, None)
    first, second, third = run_checks(subject, {"Broken": broken, "Next": lambda _: [ok("Next", "fine")]}, {})

    assert first.title == "First"
    assert (second.level, second.title) == (Level.PROBLEM, "Broken")
    assert "RuntimeError: boom boom" in second.found
    assert third.title == "Next"


def test_readable_files_are_named_with_the_chmod_command(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings()
    home.path.chmod(0o755)
    home.settings_file.chmod(0o644)
    (home.logs / "queue.log").write_text("")
    (home.logs / "queue.log").chmod(0o640)

    found = findings(home, environment)

    assert about("Home", found).remedy == f"chmod 700 '{home.path}'"
    modes = about("File modes", found)
    assert modes.level is Level.WARNING
    assert modes.remedy == f"chmod 600 '{home.settings_file}' '{home.logs / 'queue.log'}'"


@pytest.mark.parametrize(
    ("server", "level"),
    [
        ({"host": "127.0.0.1"}, Level.OK if peer_user.IS_SUPPORTED else Level.WARNING),
        ({"host": "192.0.2.7"}, Level.PROBLEM),
        ({"host": "192.0.2.7", "token": "a1b2c3d4e5f6g7h8i9"}, Level.OK),
        ({"token": "aaaaaaaaaaaaaaaaaaaaaaaa"}, Level.PROBLEM),
    ],
    ids=["loopback", "open", "open-with-token", "weak-token"],
)
def test_a_public_address_needs_a_strong_token(
    home: Home, write_settings: WriteSettings, environment: dict[str, str], server: dict[str, str], level: Level
) -> None:
    write_settings(server=server)

    assert about("Access", findings(home, environment)).level is level


@pytest.mark.parametrize(("is_linux", "server"), [(False, {}), (True, {"check_peer_user": False})])
def test_a_daemon_open_to_every_user_is_a_warning(
    home: Home,
    write_settings: WriteSettings,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    is_linux: bool,
    server: dict[str, object],
) -> None:
    monkeypatch.setattr(peer_user, "IS_SUPPORTED", is_linux)
    write_settings(server=server)
    access = about("Access", findings(home, environment))

    assert access.level is Level.WARNING
    assert "tinyagi token" in access.remedy


def test_a_wildcard_origin_is_a_problem(home: Home, write_settings: WriteSettings, environment: dict[str, str]) -> None:
    write_settings(server={"allowed_origins": ["https://*.example"]})

    assert about("Origins", findings(home, environment)).level is Level.PROBLEM


def test_a_taken_port_is_a_problem_that_names_the_address(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        write_settings(server={"port": port})
        found = about("Port", findings(home, environment))

    assert found.level is Level.PROBLEM
    assert f"127.0.0.1:{port}" in found.found
    assert "server.port" in found.remedy


def test_silent_and_killed_daemons_are_reported(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings(server={"port": 0})
    with another_process(home, "127.0.0.1", "1") as process:
        silent = about("Daemon", findings(home, environment))
        process.kill()
        process.wait()
        killed = about("Daemon", findings(home, environment))

    assert (silent.level, "does not answer" in silent.found) == (Level.PROBLEM, True)
    assert (killed.level, str(process.pid) in killed.found) == (Level.HINT, True)


async def test_a_database_in_use_is_checked_and_a_paused_lane_reported(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings()
    async with open_inbox(home) as (store, inbox):
        await inbox.submit(Incoming("work", agent="coder"))
        await store.lanes.pause(AgentId("coder"))
        # Checked while it is open.
        found = await asyncio.to_thread(findings, home, environment)

    assert about("Database", found).level is Level.OK
    lane = about("Lane", found)
    assert lane.found == "@coder is paused, 1 messages wait."
    assert lane.remedy.endswith("tinyagi queue resume coder")


def test_a_damaged_database_is_a_problem(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings()
    home.database.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)

    assert about("Database", findings(home, environment)).level is Level.PROBLEM


def test_a_database_of_a_newer_version_is_a_problem(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings()
    database = apsw.Connection(str(home.database))
    database.execute("CREATE TABLE schema_migrations (number INTEGER)")
    database.execute("INSERT INTO schema_migrations VALUES (9999)")
    database.close()

    found = about("Database", findings(home, environment))

    assert (found.level, "newer" in found.found) == (Level.PROBLEM, True)


@pytest.mark.parametrize("is_used", [True, False])
def test_an_invalid_setting_does_not_suggest_a_migration(
    home: Home, write_settings: WriteSettings, environment: dict[str, str], tmp_path: Path, is_used: bool
) -> None:
    if is_used:
        write_settings()
    home.prepare()
    home.settings_file.write_text('{"queue": {"max_runs": "8"}, "agents": {"coder": {"provider": "nonsense"}}}')

    found = findings(home, {**environment, "TINYCLAW_HOME": str(tmp_path / "none")})

    assert "max_runs" in about("Settings", found).found
    assert "Earlier version" not in {one.title for one in found}


def test_an_old_home_is_offered_for_migration(
    home: Home, write_settings: WriteSettings, environment: dict[str, str], tmp_path: Path
) -> None:
    write_settings()
    old = tmp_path / ".tinyclaw"
    old.mkdir()
    (old / "settings.json").write_text("{}")

    found = about("Earlier version", findings(home, {**environment, "TINYCLAW_HOME": str(old)}))

    assert f"tinyagi migrate --from '{old}'" in found.remedy


def test_a_setting_without_effect_is_a_warning(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings(server={"port": 0}, limits={"daily_costs": 5})

    (found,) = [one for one in findings(home, environment) if one.level is Level.WARNING]

    assert "Did you mean limits.daily_cost?" in found.found
    assert str(home.settings_file) in found.remedy
