"""The doctor's findings about agents, their programs, keys and workspaces, about plugins and skills."""

import hashlib
from datetime import timedelta
from pathlib import Path

import pytest

from tests.daemon.conftest import WriteSettings
from tests.daemon.test_doctor import about, environment, findings, program
from tinyagi.daemon.doctor.agents import plugin_digest
from tinyagi.daemon.doctor.findings import Level
from tinyagi.plugins.plugin import Plugins
from tinyagi.settings.home import Home

__all__ = ["environment"]


def test_a_missing_program_is_a_problem_with_its_install_command(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings(
        agents={"ada": {"provider": "anthropic"}, "bob": {"provider": "anthropic"}, "eve": {"provider": "openai"}}
    )
    program(environment, "codex", "echo codex-cli 1.2.3")

    found = findings(home, environment)

    missing, there = about("claude", found), about("codex", found)
    assert missing.level is Level.PROBLEM
    assert missing.found.startswith("@ada, @bob cannot run")
    assert "npm install" in missing.remedy
    assert (there.level, there.found.startswith("codex-cli 1.2.3 at ")) == (Level.OK, True)
    assert about("Permissions", [one for one in found if one.level is Level.HINT]).found.startswith("@ada, @bob, @eve")


def test_a_hanging_program_does_not_block_the_doctor(
    home: Home, write_settings: WriteSettings, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(agents={"eve": {"provider": "openai"}})
    program(environment, "codex", "exec /bin/sleep 60")
    monkeypatch.setattr("tinyagi.daemon.provider_check.PATIENCE", timedelta(milliseconds=200).total_seconds())

    assert about("codex", findings(home, environment)).level is Level.WARNING


def test_a_missing_key_is_a_problem(home: Home, write_settings: WriteSettings, environment: dict[str, str]) -> None:
    write_settings(agents={"ada": {"provider": "api", "model": "sonnet"}})

    without = about("@ada", findings(home, environment))
    with_one = about("@ada", findings(home, {**environment, "ANTHROPIC_API_KEY": "x"}))

    assert (without.level, "ANTHROPIC_API_KEY" in without.remedy) == (Level.PROBLEM, True)
    assert with_one.level is Level.OK


def test_an_agent_without_a_model_gets_a_setup_command(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings(agents={"boss": {"provider": "scripted"}, "coder": {"provider": "api"}})

    found = findings(home, environment)

    assert about("Scripted answers only", found).remedy == "Connect a model: tinyagi setup --agent boss"
    assert about("@coder", found).remedy.startswith("Connect it: tinyagi setup --agent coder, or set ")


def test_an_agent_with_full_api_access_is_named(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings(
        agents={
            "boss": {"name": "Boss", "provider": "scripted", "api_access": "all"},
            "coder": {"name": "Coder", "provider": "scripted"},
        }
    )

    found = about("API access", findings(home, environment))

    assert "@boss" in found.found
    assert "@coder" not in found.found


def test_agents_with_scripted_answers_are_one_finding(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings(agents={name: {"name": name, "provider": "scripted"} for name in ("lead", "maker")})

    found = about("Scripted answers only", findings(home, environment))

    assert (found.level, found.found, found.remedy) == (
        Level.HINT,
        "@lead, @maker",
        "Connect a model: tinyagi setup --agent lead",
    )
    assert about("Settings", findings(home, environment)).found.endswith("valid; 2 agents, 0 teams")


def test_workspaces_readable_by_others_are_named(
    home: Home, write_settings: WriteSettings, environment: dict[str, str], tmp_path: Path
) -> None:
    for name, mode in (("open", 0o755), ("closed", 0o700)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    write_settings(
        agents={
            name: {"name": name, "provider": "scripted", "working_directory": str(tmp_path / name)}
            for name in ("open", "closed")
        }
    )

    found = about("Workspaces", findings(home, environment))

    assert found.level is Level.HINT
    assert f"chmod go-rwx {tmp_path / 'open'}" in found.remedy
    assert str(tmp_path / "closed") not in found.remedy


def test_an_agent_working_in_the_home_is_a_problem(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings(agents={"spy": {"name": "Spy", "provider": "scripted", "working_directory": str(home.path)}})

    found = about("Paths", findings(home, environment))

    assert found.level is Level.PROBLEM
    assert "agents.spy.working_directory" in found.found


def test_links_out_of_a_workspace_are_reported(
    home: Home, write_settings: WriteSettings, environment: dict[str, str], tmp_path: Path
) -> None:
    write_settings()
    folder = tmp_path / "workspace" / "coder"
    folder.mkdir(parents=True)
    (folder / "out").symlink_to("/etc")
    (folder / "in").symlink_to("out/../..")
    (folder / "here").symlink_to(".")

    found = about("@coder's folder", findings(home, environment))

    assert found.level is Level.WARNING
    assert found.found.endswith(": in, out.")


def test_plugins_are_listed_with_their_hash_and_not_run(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings()
    folder = home.plugins / "shout"
    (folder / "parts").mkdir(parents=True)
    (folder / "plugin.py").write_text("raise SystemExit('this was run')\n")
    (folder / "parts" / "loud.py").write_text("x = 1\n")
    (home.plugins / "Bad Name").mkdir()

    found = findings(home, environment)

    assert f"sha256 {plugin_digest(folder)[:12]}" in about("Plugin shout", found).found
    assert about("Plugin", found).level is Level.WARNING


async def test_the_listed_hash_of_a_plugin_equals_the_loaded_one(home: Home) -> None:
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
    home: Home, write_settings: WriteSettings, environment: dict[str, str], tmp_path: Path
) -> None:
    write_settings()
    folder = tmp_path / "workspace" / "coder" / ".agents" / "skills" / "mine"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: Mine\n---\nDo it.\n")

    found = about("@coder's skills", findings(home, environment))

    digest = hashlib.sha256((folder / "SKILL.md").read_bytes()).hexdigest()
    assert f"mine ({digest[:12]})" in found.found


def test_a_restricted_agent_without_a_server_token_is_named(
    home: Home, write_settings: WriteSettings, environment: dict[str, str]
) -> None:
    write_settings(agents={"boss": {"provider": "scripted"}, "coder": {"provider": "scripted", "permissions": "plan"}})

    found = about("Agents and the API", findings(home, environment))

    assert (found.level, "@coder" in found.found, "@boss" in found.found) == (Level.HINT, True, False)
    write_settings(agents={"coder": {"permissions": "plan"}}, server={"token": "t" * 16 + "abcdefgh"})
    assert "Agents and the API" not in {finding.title for finding in findings(home, environment)}
