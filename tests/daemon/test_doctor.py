"""Each finding names what was found and what to do about it; a check that fails is a finding, too."""

import asyncio
import hashlib
import socket
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from tests.daemon.conftest import Furnish
from tests.daemon.test_pidfile import another_process
from tinyagi.daemon.doctor.examination import examine, subject_of
from tinyagi.daemon.doctor.extensions import plugin_digest
from tinyagi.daemon.doctor.findings import Finding, Level, Subject, ok
from tinyagi.domain.ids import AgentId
from tinyagi.engine.inbox import Incoming
from tinyagi.plugins.host import Plugins
from tinyagi.settings.home import Home
from tinyagi.wiring import open_inbox


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Nothing of this machine: no programs, no keys, no old home."""
    (tmp_path / "bin").mkdir()
    return {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path), "TINYCLAW_HOME": str(tmp_path / "none")}


def findings(home: Home, environment: dict[str, str]) -> list[Finding]:
    return list(examine(subject_of(home, environment)))


def about(title: str, found: list[Finding]) -> Finding:
    (one,) = [finding for finding in found if finding.title == title]
    return one


def program(environment: dict[str, str], name: str, script: str) -> None:
    path = Path(environment["PATH"]) / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)


def test_a_good_home_has_no_problem_and_every_other_finding_has_a_remedy(
    home: Home, furnish: Furnish, environment: dict[str, str]
) -> None:
    furnish(server={"port": 0})

    found = findings(home, environment)

    assert {finding.level for finding in found} == {Level.OK, Level.HINT}
    assert all(finding.remedy for finding in found if finding.level is not Level.OK)
    assert len({finding.title for finding in found}) > 8


def test_a_home_that_is_not_there_is_no_problem_and_is_not_made(tmp_path: Path, environment: dict[str, str]) -> None:
    home = Home(tmp_path / "not" / "yet")

    found = findings(home, environment)

    assert about("Home", found).level is Level.HINT
    assert about("Database", found).level is Level.HINT
    assert not home.path.parent.exists()


def test_settings_that_are_wrong_are_named_with_their_place(home: Home, environment: dict[str, str]) -> None:
    home.settings_file.write_text('{"agents": {,}}')

    (found,) = [one for one in findings(home, environment) if one.level is Level.PROBLEM]

    assert found.title == "Settings"
    assert "line 1" in found.found


def test_a_check_that_fails_itself_is_a_finding_and_the_next_one_goes_on(home: Home) -> None:
    def broken(subject: Subject) -> Iterator[Finding]:
        yield ok("First", "half of it")
        raise RuntimeError("boom\nboom")

    subject = Subject(home, {}, None)
    first, second, third = examine(subject, {"Broken": broken, "Next": lambda _: [ok("Next", "fine")]}, {})

    assert first.title == "First"
    assert (second.level, second.title) == (Level.PROBLEM, "Broken")
    assert "RuntimeError: boom boom" in second.found
    assert third.title == "Next"


def test_what_others_can_read_is_named_with_the_command_that_ends_it(
    home: Home, furnish: Furnish, environment: dict[str, str]
) -> None:
    furnish()
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
        ({"host": "127.0.0.1"}, Level.OK),
        ({"host": "192.0.2.7"}, Level.PROBLEM),
        ({"host": "192.0.2.7", "token": "a1b2c3d4e5f6g7h8i9"}, Level.OK),
        ({"token": "aaaaaaaaaaaaaaaaaaaaaaaa"}, Level.PROBLEM),
    ],
    ids=["loopback", "open", "open-with-token", "weak-token"],
)
def test_an_address_that_others_reach_needs_a_good_token(
    home: Home, furnish: Furnish, environment: dict[str, str], server: dict[str, str], level: Level
) -> None:
    furnish(server=server)

    assert about("Access", findings(home, environment)).level is level


def test_a_wildcard_origin_is_a_problem(home: Home, furnish: Furnish, environment: dict[str, str]) -> None:
    furnish(server={"allowed_origins": ["https://*.example"]})

    assert about("Origins", findings(home, environment)).level is Level.PROBLEM


def test_a_taken_port_is_a_problem_that_names_who_has_it(
    home: Home, furnish: Furnish, environment: dict[str, str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        furnish(server={"port": port})
        found = about("Port", findings(home, environment))

    assert found.level is Level.PROBLEM
    assert f"127.0.0.1:{port}" in found.found
    assert "server.port" in found.remedy


def test_a_daemon_that_was_killed_is_told(home: Home, furnish: Furnish, environment: dict[str, str]) -> None:
    furnish(server={"port": 0})
    with another_process(home, "127.0.0.1", "1") as process:
        silent = about("Daemon", findings(home, environment))
        process.kill()
        process.wait()
        killed = about("Daemon", findings(home, environment))

    assert (silent.level, "does not answer" in silent.found) == (Level.PROBLEM, True)
    assert (killed.level, str(process.pid) in killed.found) == (Level.HINT, True)


async def test_a_database_is_whole_and_what_waits_in_it_is_told(
    home: Home, furnish: Furnish, environment: dict[str, str]
) -> None:
    furnish()
    async with open_inbox(home) as (store, inbox):
        await inbox.submit(Incoming("work", agent="coder"))
        await store.lanes.pause(AgentId("coder"))
        # Looked at while it is open.
        found = await asyncio.to_thread(findings, home, environment)

    assert about("Database", found).level is Level.OK
    lane = about("Lane", found)
    assert lane.found == "@coder is paused, 1 messages wait."
    assert lane.remedy.endswith("tinyagi queue resume coder")


def test_a_damaged_database_is_a_problem(home: Home, furnish: Furnish, environment: dict[str, str]) -> None:
    furnish()
    home.database.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)

    assert about("Database", findings(home, environment)).level is Level.PROBLEM


def test_a_database_of_a_newer_version_is_a_problem(home: Home, furnish: Furnish, environment: dict[str, str]) -> None:
    furnish()
    database = apsw.Connection(str(home.database))
    database.execute("CREATE TABLE schema_migrations (number INTEGER)")
    database.execute("INSERT INTO schema_migrations VALUES (9999)")
    database.close()

    found = about("Database", findings(home, environment))

    assert (found.level, "newer" in found.found) == (Level.PROBLEM, True)


def test_a_program_that_is_missing_is_a_problem_with_its_installation(
    home: Home, furnish: Furnish, environment: dict[str, str]
) -> None:
    furnish(agents={"ada": {"provider": "anthropic"}, "bob": {"provider": "anthropic"}, "eve": {"provider": "openai"}})
    program(environment, "codex", "echo codex-cli 1.2.3")

    found = findings(home, environment)

    missing, there = about("claude", found), about("codex", found)
    assert missing.level is Level.PROBLEM
    assert missing.found.startswith("@ada, @bob cannot run")
    assert "npm install" in missing.remedy
    assert (there.level, there.found.startswith("codex-cli 1.2.3 at ")) == (Level.OK, True)
    assert about("Permissions", [one for one in found if one.level is Level.HINT]).found.startswith("@ada, @bob, @eve")


def test_a_program_that_hangs_does_not_hang_the_doctor(
    home: Home, furnish: Furnish, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(agents={"eve": {"provider": "openai"}})
    program(environment, "codex", "exec /bin/sleep 60")
    monkeypatch.setattr("tinyagi.daemon.doctor.agents.PATIENCE", timedelta(milliseconds=200).total_seconds())

    assert about("codex", findings(home, environment)).level is Level.WARNING


def test_a_key_that_is_missing_is_a_problem(home: Home, furnish: Furnish, environment: dict[str, str]) -> None:
    furnish(agents={"ada": {"provider": "api", "model": "sonnet"}})

    without = about("@ada", findings(home, environment))
    with_one = about("@ada", findings(home, {**environment, "ANTHROPIC_API_KEY": "x"}))

    assert (without.level, "ANTHROPIC_API_KEY" in without.remedy) == (Level.PROBLEM, True)
    assert with_one.level is Level.OK


def test_links_that_lead_out_of_a_workspace_are_told(
    home: Home, furnish: Furnish, environment: dict[str, str], tmp_path: Path
) -> None:
    furnish()
    folder = tmp_path / "workspace" / "coder"
    folder.mkdir(parents=True)
    (folder / "out").symlink_to("/etc")
    (folder / "in").symlink_to("out/../..")
    (folder / "here").symlink_to(".")

    found = about("@coder's folder", findings(home, environment))

    assert found.level is Level.WARNING
    assert found.found.endswith(": in, out.")


def test_plugins_are_listed_with_the_hash_that_they_run_with_and_are_not_run(
    home: Home, furnish: Furnish, environment: dict[str, str]
) -> None:
    furnish()
    folder = home.plugins / "shout"
    (folder / "parts").mkdir(parents=True)
    (folder / "plugin.py").write_text("raise SystemExit('this was run')\n")
    (folder / "parts" / "loud.py").write_text("x = 1\n")
    (home.plugins / "Bad Name").mkdir()

    found = findings(home, environment)

    assert f"sha256 {plugin_digest(folder)[:12]}" in about("Plugin shout", found).found
    assert about("Plugin", found).level is Level.WARNING


async def test_the_hash_of_a_plugin_is_the_one_it_is_loaded_with(home: Home) -> None:
    folder = home.plugins / "quiet"
    (folder / "parts").mkdir(parents=True)
    (folder / "plugin.py").write_text("x = 1\n")
    (folder / "parts" / "loud.py").write_text("y = 1\n")
    (folder / "parts" / ".hidden.py").write_text("z = 1\n")
    plugins = await Plugins.load(home.plugins, home=home.path, entry_points=False)
    (loaded,) = plugins.loaded
    await plugins.close()

    assert loaded.sha256 == plugin_digest(folder)


def test_skills_of_the_owner_are_listed_with_their_hash(
    home: Home, furnish: Furnish, environment: dict[str, str], tmp_path: Path
) -> None:
    furnish()
    folder = tmp_path / "workspace" / "coder" / ".agents" / "skills" / "mine"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: Mine\n---\nDo it.\n")

    found = about("@coder's skills", findings(home, environment))

    digest = hashlib.sha256((folder / "SKILL.md").read_bytes()).hexdigest()
    assert f"mine ({digest[:12]})" in found.found


def test_an_old_home_is_offered_for_migration(
    home: Home, furnish: Furnish, environment: dict[str, str], tmp_path: Path
) -> None:
    furnish()
    old = tmp_path / ".tinyclaw"
    old.mkdir()
    (old / "settings.json").write_text("{}")

    found = about("Earlier version", findings(home, {**environment, "TINYCLAW_HOME": str(old)}))

    assert f"tinyagi migrate --from '{old}'" in found.remedy
