"""The daemon is found where the command line, its pid file, the environment or the settings say."""

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


def test_the_default_is_not_known_to_be_ours(place: Installation) -> None:
    assert place.address({}) == Address(DEFAULT, None, is_known=False)


@pytest.mark.parametrize("url", ["http://elsewhere:1", "elsewhere:1"])
def test_what_is_typed_goes_first(place: Installation, url: str) -> None:
    with hold_pid_file(place.home, "1") as pid_file:
        pid_file.listening("127.0.0.1", 4001)

        assert Installation(place.folder, url).address({"TINYAGI_API_PORT": "4002"}).url == "http://elsewhere:1"


@pytest.mark.parametrize(("url", "token"), [("http://127.0.0.1:1", "of-the-home"), ("https://elsewhere:1", None)])
def test_the_token_of_the_home_is_not_sent_elsewhere(place: Installation, url: str, token: str | None) -> None:
    write_settings(place, token="of-the-home")  # noqa: S106
    elsewhere = Installation(place.folder, url)

    assert elsewhere.address({}).token == token
    assert elsewhere.address({"TINYAGI_API_TOKEN": "told"}).token == "told"


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]")])  # noqa: S104
def test_then_the_pid_file_of_a_daemon_that_runs(place: Installation, host: str, shown: str) -> None:
    write_settings(place, port=4003)
    with hold_pid_file(place.home, "1") as pid_file:
        pid_file.listening(host, 4001)

        assert place.address({"TINYAGI_API_PORT": "4002"}) == Address(f"http://{shown}:4001", None)


def test_a_leftover_pid_file_counts_for_nothing(place: Installation) -> None:
    place.home.pid_file.write_text(json.dumps({"pid": 1, "host": "127.0.0.1", "port": 4001}))

    assert place.address({}) == Address(DEFAULT, None, is_known=False)


def test_then_the_environment(place: Installation) -> None:
    write_settings(place, port=4003)

    assert place.address({"TINYAGI_API_PORT": "4002"}) == Address("http://127.0.0.1:4002", None)


def test_then_the_settings(place: Installation) -> None:
    write_settings(place, port=4003, host="0.0.0.0", token="from-the-settings")  # noqa: S104, S106

    assert place.address({}) == Address("http://127.0.0.1:4003", "from-the-settings")


def test_any_port_is_no_port(place: Installation) -> None:
    write_settings(place, port=0)

    assert place.address({}) == Address(DEFAULT, None, is_known=False)


def test_the_token_of_the_environment_goes_first(place: Installation) -> None:
    write_settings(place, token="from-the-settings")  # noqa: S106

    assert place.address({"TINYAGI_API_TOKEN": "from-the-environment"}).token == "from-the-environment"


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"server": 3}', b'{"server": {"port": "x", "token": 1}}', b"\xff"])
def test_settings_that_cannot_be_read_do_not_hide_the_daemon(place: Installation, content: bytes) -> None:
    place.home.settings_file.write_bytes(content)

    assert place.address({}).url == DEFAULT


@pytest.mark.parametrize("command", [("queue", "status"), ("send", "hello"), ("pairing", "list"), ("trace",)])
def test_without_a_daemon_the_exit_code_is_three_and_says_what_to_do(shell: Shell, command: tuple[str, ...]) -> None:
    result = shell(*command)

    assert result.exit_code == 3
    assert result.stderr == f"tinyagi: TinyAGI is not running at {DEFAULT}. Start it with: tinyagi start\n"
    assert not shell.home.path.exists()


def test_a_typed_address_is_really_asked(tmp_path: Path) -> None:
    result = Shell(Home(tmp_path), "127.0.0.1:1")("agent", "add", "coder")

    assert result.exit_code == 3
    assert "not running at http://127.0.0.1:1." in result.stderr
