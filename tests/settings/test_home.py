"""The paths of a home, its permissions, and settings from the environment."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tinyagi.domain.errors import InvalidInput
from tinyagi.settings.environment import api_host, api_port, api_token, bot_token, snapshot, without_run_variables
from tinyagi.settings.errors import HomeUnusable
from tinyagi.settings.home import Home, find_home


def test_the_environment_names_the_home() -> None:
    assert find_home({"TINYAGI_HOME": "/srv/agents"}).path == Path("/srv/agents")


@pytest.mark.parametrize("environment", [{}, {"TINYAGI_HOME": ""}])
def test_the_default_home_is_in_the_users_folder(environment: dict[str, str]) -> None:
    assert find_home(environment).path == Path.home() / ".tinyagi"


def test_the_home_of_this_process_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TINYAGI_HOME", str(tmp_path))

    assert find_home() == Home(tmp_path)
    assert snapshot()["TINYAGI_HOME"] == str(tmp_path)


def test_a_relative_home_does_not_move_with_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert find_home({"TINYAGI_HOME": "here"}).path == tmp_path / "here"
    assert find_home({"TINYAGI_HOME": "~/there"}).path == Path.home() / "there"


def test_a_home_of_an_unknown_user_is_refused_with_a_remedy() -> None:
    with pytest.raises(InvalidInput, match="Set TINYAGI_HOME"):
        find_home({"TINYAGI_HOME": "~no-such-user-here/x"})


def test_paths_of_the_home() -> None:
    home = Home(Path("/h"))
    places = (home.database, home.settings_file, home.pid_file, home.logs, home.files, home.channels, home.chats)

    assert [str(place) for place in (*places, home.plugins, home.backups, home.lake)] == [
        "/h/tinyagi.db",
        "/h/settings.json",
        "/h/tinyagi.pid",
        "/h/logs",
        "/h/files",
        "/h/channels",
        "/h/chats",
        "/h/plugins",
        "/h/backups",
        "/h/lake",
    ]


def test_a_new_home_is_private(tmp_path: Path) -> None:
    home = Home(tmp_path / "deep" / "home")

    home.prepare()
    home.prepare()

    assert home.is_private
    for folder in (home.path, home.logs, home.files, home.channels, home.chats, home.plugins, home.backups):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not home.lake.exists()


def test_an_existing_home_keeps_its_permissions(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.path.mkdir()
    home.path.chmod(0o750)

    home.prepare()

    assert stat.S_IMODE(home.path.stat().st_mode) == 0o750
    assert not home.is_private


def test_a_home_that_is_a_file_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "home"
    path.write_text("")

    with pytest.raises(HomeUnusable, match="TINYAGI_HOME"):
        Home(path).prepare()


def test_the_id_of_a_home_does_not_depend_on_the_path(tmp_path: Path) -> None:
    home, link = tmp_path / "home", tmp_path / "link"
    home.mkdir()
    link.symlink_to(home)

    assert Home(link).home_id == Home(home).home_id == Home(tmp_path / "x" / ".." / "home").home_id
    assert Home(tmp_path).home_id != Home(home).home_id
    assert len(Home(home).home_id) == 12
    assert int(Home(home).home_id, 16) >= 0


def test_the_port_comes_from_the_environment_the_settings_or_the_default() -> None:
    assert api_port({}) == 3777
    assert api_port({}, 4711) == 4711
    assert api_port({"TINYAGI_API_PORT": ""}) == 3777
    assert api_port({"TINYCLAW_API_PORT": "4000"}) == 4000
    assert api_port({"TINYAGI_API_PORT": "5000", "TINYCLAW_API_PORT": "4000"}) == 5000


@pytest.mark.parametrize("text", ["0", "65536", "-1", "x", "80 ", "8.0", "٣", "9" * 5000])
def test_an_invalid_port_is_refused_with_the_name_of_the_variable(text: str) -> None:
    with pytest.raises(InvalidInput, match="TINYAGI_API_PORT"):
        api_port({"TINYAGI_API_PORT": text})


def test_a_token_of_the_environment_wins_over_the_stored_one() -> None:
    assert bot_token({"DISCORD_BOT_TOKEN": "env"}, "discord", "stored") == "env"
    assert bot_token({"DISCORD_BOT_TOKEN": "env"}, "telegram", "stored") == "stored"
    assert bot_token({"TELEGRAM_BOT_TOKEN": ""}, "telegram", "stored") == "stored"
    assert bot_token({}, "telegram", "") is None
    assert bot_token({"DISCORD_BOT_TOKEN": "env"}, "whatsapp", None) is None


def test_finding_the_home_does_not_import_pydantic() -> None:
    script = "import sys, tinyagi.settings.home; print([name for name in sys.modules if name.startswith('pydantic')])"

    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


def test_address_and_token_of_the_environment_win_over_the_settings() -> None:
    assert api_host({}, "127.0.0.1") == "127.0.0.1"
    assert api_host({"TINYAGI_API_HOST": "0.0.0.0"}, "127.0.0.1") == "0.0.0.0"  # noqa: S104
    assert api_token({}, None) is None
    assert api_token({"TINYAGI_API_TOKEN": ""}, "stored") == "stored"
    assert api_token({"TINYAGI_API_TOKEN": "told"}, "stored") == "told"


def test_variables_of_a_run_are_removed() -> None:
    marked = {"TINYAGI_RUN": "home:claim", "TINYAGI_AGENT_ID": "coder", "TINYAGI_HOME": "here", "PATH": "/bin"}

    assert without_run_variables(marked) == {"TINYAGI_HOME": "here", "PATH": "/bin"}
