"""The daemon's address: the command line, its pid file, the environment or the settings, in this order."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tinyagi.cli.context import Installation
from tinyagi.client.address import Address
from tinyagi.daemon.pidfile import hold_pid_file
from tinyagi.settings.home import Home

DEFAULT = "http://127.0.0.1:3777"


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


def write_settings(place: Installation, **server: object) -> None:
    place.home.settings_file.write_text(json.dumps({"server": server}))


def test_the_default_address_is_only_a_guess(place: Installation) -> None:
    assert place.address({}) == Address(DEFAULT, None, is_known=False)


@pytest.mark.parametrize("url", ["http://elsewhere:1", "elsewhere:1"])
def test_the_url_option_takes_precedence(place: Installation, url: str) -> None:
    with hold_pid_file(place.home, "1") as pid_file:
        pid_file.listening("127.0.0.1", 4001)

        assert Installation(place.folder, url).address({"TINYAGI_API_PORT": "4002"}).url == "http://elsewhere:1"


@pytest.mark.parametrize(("url", "token"), [("http://127.0.0.1:1", "of-the-home"), ("https://elsewhere:1", None)])
def test_the_homes_token_is_not_sent_to_another_machine(place: Installation, url: str, token: str | None) -> None:
    write_settings(place, token="of-the-home")  # noqa: S106
    elsewhere = Installation(place.folder, url)

    assert elsewhere.address({}).token == token
    assert elsewhere.address({"TINYAGI_API_TOKEN": "told"}).token == "told"


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]")])  # noqa: S104
def test_the_pid_file_of_a_running_daemon_comes_second(place: Installation, host: str, shown: str) -> None:
    write_settings(place, port=4003)
    with hold_pid_file(place.home, "1") as pid_file:
        pid_file.listening(host, 4001)

        assert place.address({"TINYAGI_API_PORT": "4002"}) == Address(f"http://{shown}:4001", None)


def test_a_leftover_pid_file_is_ignored(place: Installation) -> None:
    place.home.pid_file.write_text(json.dumps({"pid": 1, "host": "127.0.0.1", "port": 4001}))

    assert place.address({}) == Address(DEFAULT, None, is_known=False)


def test_the_environment_comes_third(place: Installation) -> None:
    write_settings(place, port=4003)

    assert place.address({"TINYAGI_API_PORT": "4002"}) == Address("http://127.0.0.1:4002", None)


def test_the_settings_come_fourth(place: Installation) -> None:
    write_settings(place, port=4003, host="0.0.0.0", token="from-the-settings")  # noqa: S104, S106

    assert place.address({}) == Address("http://127.0.0.1:4003", "from-the-settings")


def test_port_zero_in_the_settings_is_ignored(place: Installation) -> None:
    write_settings(place, port=0)

    assert place.address({}) == Address(DEFAULT, None, is_known=False)


def test_the_token_of_the_environment_takes_precedence(place: Installation) -> None:
    write_settings(place, token="from-the-settings")  # noqa: S106

    assert place.address({"TINYAGI_API_TOKEN": "from-the-environment"}).token == "from-the-environment"


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"server": 3}', b'{"server": {"port": "x", "token": 1}}', b"\xff"])
def test_broken_settings_fall_back_to_the_default_address(place: Installation, content: bytes) -> None:
    place.home.settings_file.write_bytes(content)

    assert place.address({}).url == DEFAULT


@pytest.mark.parametrize("command", [("queue", "status"), ("send", "hello"), ("pairing", "list"), ("trace",)])
def test_commands_without_a_daemon_exit_with_three_and_a_remedy(shell: Shell, command: tuple[str, ...]) -> None:
    result = shell(*command)

    assert result.exit_code == 3
    assert result.stderr == f"tinyagi: TinyAGI is not running at {DEFAULT}. Start it with: tinyagi start\n"
    assert not shell.home.path.exists()


def test_a_typed_address_is_used_for_an_edit(tmp_path: Path) -> None:
    result = Shell(Home(tmp_path), "127.0.0.1:1")("agent", "add", "coder")

    assert result.exit_code == 3
    assert "not running at http://127.0.0.1:1." in result.stderr
