"""Commands that need no daemon: plugins, bench, waterfall, questions at a terminal."""

import os
import pty
import re
import subprocess
import sys

import pytest

from tests.cli.conftest import Shell
from tinyagi.cli.terminal import duration, readable
from tinyagi.plugins.discovery import find_plugins
from tinyagi.settings.home import Home

# Passwords are read from the controlling terminal, not from stdin.
AT_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


def test_a_new_plugin_can_be_loaded(shell: Shell) -> None:
    result = shell("plugin", "new", "my-plugin")

    assert result.exit_code == 0, result.stderr
    (plugin,) = find_plugins(shell.home.plugins, entry_points=False)
    module = plugin.load()
    assert module.transform_incoming("hello", None) == "hello"  # type: ignore[attr-defined]
    assert [one["name"] for one in shell.json("plugin", "list")] == ["my-plugin"]


def test_the_doctor_uses_singular_and_plural(shell: Shell) -> None:
    shell("agent", "add", "coder", "--provider", "scripted")
    last = shell("doctor").stdout.splitlines()[-1]

    assert re.fullmatch(r"\d+ ok(, (1 (hint|warning|problem)|\d+ (hints|warnings|problems)))+", last), last
    assert "1 hints" not in last


def test_a_plugin_is_never_overwritten(shell: Shell) -> None:
    shell("plugin", "new", "mine")
    file = shell.home.plugins / "mine" / "plugin.py"
    file.write_text("# changed")

    result = shell("plugin", "new", "mine")

    assert result.exit_code == 2
    assert file.read_text() == "# changed"


@pytest.mark.parametrize("name", ["../escape", "Mine", ""])
def test_an_invalid_plugin_name_is_refused(shell: Shell, name: str) -> None:
    assert shell("plugin", "new", name).exit_code == 2
    assert not shell.home.path.exists()


def test_listing_plugins_runs_none_of_them(shell: Shell) -> None:
    folder = shell.home.plugins / "loud"
    folder.mkdir(parents=True)
    (folder / "plugin.py").write_text("raise SystemExit('I ran')")

    assert "loud" in shell("plugin", "list").stdout


def test_disabled_plugins_are_marked(shell: Shell) -> None:
    shell("plugin", "new", "one")
    shell.home.settings_file.write_text('{"plugins": {"disabled": ["one"]}}')

    assert shell.json("plugin", "list")[0]["enabled"] is False


def test_the_bench_measures_and_leaves_no_files(shell: Shell) -> None:
    measured = shell.json("bench", "--seconds", "2")

    assert measured["enqueues_per_second"] > 0
    assert measured["runs_per_second"] > 0
    assert not shell.home.path.exists()


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(None, ""), (0, "0 ms"), (999, "999 ms"), (1_500, "1.5 s"), (61_000, "1 min 1 s"), (7_260_000, "2 h 1 min")],
)
def test_durations_are_short(milliseconds: int | None, text: str) -> None:
    assert duration(milliseconds) == text


def test_texts_keep_their_lines_and_lose_control_characters() -> None:
    assert readable("one\r\ntwo\x1b[2J\t\u202ethree\x00") == "one\ntwo[2J\tthree\ufffd"


def at_terminal(home: Home, *arguments: str, answers: dict[str, str]) -> tuple[int, str]:
    """Run a command at a real terminal; each answer is typed when its question has been shown."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "tinyagi", "--home", str(home.path), *arguments]
    process = subprocess.Popen(
        [sys.executable, "-c", AT_TERMINAL, *command], stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    shown, left = "", dict(answers)
    try:
        while chunk := os.read(master, 4096):
            shown += chunk.decode()
            question = next((question for question in left if question in shown), None)
            if question is not None:
                os.write(master, f"{left.pop(question)}\n".encode())
    except OSError:
        # Linux raises this when the other end of the terminal is closed.
        pass
    finally:
        os.close(master)
    return process.wait(), shown


def test_a_wizard_asks_for_missing_options(shell: Shell) -> None:
    answers = {"Id of the new agent": "clerk", "Its name": "The Clerk", "Its model": "opus"}
    code, shown = at_terminal(shell.home, "agent", "add", "--provider", "anthropic", answers=answers)

    assert code == 0, shown
    assert "Its provider" not in shown
    assert shell.settings["agents"]["clerk"] == {"name": "The Clerk", "provider": "anthropic", "model": "opus"}


def test_a_wizard_repeats_the_question_after_an_invalid_answer(shell: Shell) -> None:
    # The space after the colon is printed once the typed-ahead input has been discarded.
    answers = {"What calls it": "pigeon", "Please type one of": "api", "The secret: ": "123:abcdefghijkl"}
    code, shown = at_terminal(shell.home, "provider", "add", "local", "--url", "http://127.0.0.1:1", answers=answers)

    assert code == 0, shown
    assert "abcdefghijkl" not in shown
    assert shell.settings["custom_providers"]["local"]["api_key"] == "123:abcdefghijkl"


@pytest.mark.parametrize(("key", "code"), [("n", 1), ("y", 0)])
def test_a_removal_asks_for_confirmation(shell: Shell, key: str, code: int) -> None:
    shell("agent", "add", "clerk", "--provider", "scripted")
    shell("team", "add", "desk", "--agents", "clerk")

    ended, shown = at_terminal(shell.home, "team", "remove", "desk", answers={"Remove the team": key})

    assert ended == code, shown
    assert ("desk" in shell.settings["teams"]) == (key == "n")
