"""`tinyagi token`: create, show, rotate and remove it, with and without a daemon."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import CLEAN, Shell
from tinyagi.daemon.pidfile import find_daemon
from tinyagi.settings.home import Home

TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
OF_THE_ENVIRONMENT = "of-the-environment-0123456789"


def test_a_new_token_is_stored_for_the_owner_and_printed_with_its_use(shell: Shell) -> None:
    made = shell("token")

    assert made.exit_code == 0, made.stderr
    token = made.stdout.strip()
    assert TOKEN.fullmatch(token)
    assert shell.settings["server"]["token"] == token
    assert stat.S_IMODE(shell.home.settings_file.stat().st_mode) == 0o600
    assert "Authorization: Bearer" in made.stderr
    assert "TINYAGI_API_TOKEN" in made.stderr
    assert shell("token", "show").stdout.strip() == token
    assert shell.json("token", "show") == {"token": token, "source": "settings"}


def test_a_second_token_is_refused_without_rotate(shell: Shell) -> None:
    token = shell("token").stdout.strip()
    again = shell("token")

    assert again.exit_code == 2
    assert "tinyagi token rotate" in again.stderr
    assert shell.settings["server"]["token"] == token


def test_rotate_and_remove_need_a_confirmation(shell: Shell) -> None:
    token = shell("token").stdout.strip()

    for action in ("rotate", "remove"):
        refused = shell("token", action)
        assert refused.exit_code == 2
        assert "--yes" in refused.stderr
    assert shell.settings["server"]["token"] == token
    rotated = shell("token", "rotate", "--yes").stdout.strip()
    assert TOKEN.fullmatch(rotated)
    assert rotated != token
    assert shell("token", "remove", "--yes").exit_code == 0
    assert "token" not in shell.settings["server"]
    shown = shell("token", "show")
    assert shown.exit_code == 1
    assert "tinyagi token" in shown.stderr
    assert shell.json("token", "show") == {"token": None, "source": None}


def test_the_token_commands_print_json(shell: Shell) -> None:
    made = shell.json("token")

    assert made == {"token": shell.settings["server"]["token"], "source": "settings", "restarted": False}
    assert shell.json("token", "rotate", "--yes")["token"] == shell.settings["server"]["token"]
    assert shell.json("token", "remove", "--yes") == {"token": None, "source": None, "restarted": False}


def test_a_variable_that_overrides_the_stored_token_is_named(shell: Shell) -> None:
    with_variable = Shell(shell.home, token=OF_THE_ENVIRONMENT)
    made = with_variable("token")

    assert "TINYAGI_API_TOKEN" in made.stderr
    shown = with_variable("token", "show")
    assert shown.stdout.strip() == OF_THE_ENVIRONMENT
    assert "TINYAGI_API_TOKEN" in shown.stderr
    assert with_variable.json("token", "show")["source"] == "environment"


def test_the_token_of_a_public_daemon_cannot_be_removed(shell: Shell) -> None:
    shell("token")
    settings = shell.settings
    settings["server"]["host"] = "192.0.2.7"
    shell.home.settings_file.write_text(json.dumps(settings))

    refused = shell("token", "remove", "--yes")

    assert refused.exit_code == 2
    assert "192.0.2.7" in refused.stderr
    assert shell.settings == settings


def test_the_token_of_a_remote_daemon_cannot_be_changed(shell: Shell) -> None:
    refused = Shell(shell.home, url="http://192.0.2.7:3777")("token")

    assert refused.exit_code == 2
    assert "--url" in refused.stderr


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Home]:
    """A home whose daemon runs as a process."""
    home = Home(tmp_path / "home")
    home.prepare()
    settings = {
        "agents": {"coder": {"name": "Coder", "provider": "scripted"}},
        "workspace": {"path": str(tmp_path / "workspace")},
        "monitoring": {"heartbeat_interval": 0},
        "server": {"port": 0},
    }
    home.settings_file.write_text(json.dumps(settings))
    tinyagi(home, "start")
    yield home
    tinyagi(home, "stop")


def tinyagi(home: Home, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name not in CLEAN}
    return subprocess.run(
        [sys.executable, "-m", "tinyagi", "--home", str(home.path), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def status_with(home: Home, token: str | None) -> int:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return httpx.get(f"{find_daemon(home).url}/api/status", headers=headers, trust_env=False).status_code


def test_a_running_daemon_requires_the_new_token_at_once(running: Home) -> None:
    made = tinyagi(running, "token")
    first = made.stdout.strip()
    assert "has restarted" in made.stderr
    assert [status_with(running, token) for token in (None, first)] == [401, 200]
    assert tinyagi(running, "queue", "status").returncode == 0

    second = json.loads(tinyagi(running, "token", "rotate", "--yes", "--json").stdout)
    assert second["restarted"] is True
    assert [status_with(running, token) for token in (first, second["token"])] == [401, 200]

    removed = tinyagi(running, "token", "remove", "--yes")
    result = (removed.returncode, removed.stdout, removed.stderr)
    assert result == (0, "The token is removed; the daemon has restarted without it.\n", "")
    assert status_with(running, None) == 200


def test_no_restart_names_the_command_to_restart(running: Home) -> None:
    made = tinyagi(running, "token", "--no-restart")

    assert "tinyagi restart" in made.stderr
    assert status_with(running, None) == 200
    assert tinyagi(running, "restart").returncode == 0
    assert [status_with(running, token) for token in (None, made.stdout.strip())] == [401, 200]
