"""Every error between the user's terminal and the home is one sentence, never a stack trace."""

import errno
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Remote, Shell
from tests.server.conftest import Premises
from tinyagi.cli import logs
from tinyagi.cli.error_boundary import FAILED
from tinyagi.cli.terminal import wrapped


def tinyagi(*arguments: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "tinyagi", *arguments],
        input=stdin,
        capture_output=True,
        env={**os.environ, "TINYAGI_API_PORT": "", "PYTHONUTF8": "0", **environment},
        check=False,
    )


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_stdin_that_is_not_utf8_is_refused_with_a_remedy(tmp_path: Path, errors: str) -> None:
    result = tinyagi("--home", str(tmp_path), "send", "-", stdin=b"gr\xfc\xdfe", PYTHONIOENCODING=f"utf-8:{errors}")

    assert result.returncode == 2
    assert b"not UTF-8" in result.stderr
    assert b"iconv" in result.stderr
    assert b"Traceback" not in result.stderr


def test_a_secret_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    arguments = ("--home", str(tmp_path), "provider", "set", "anthropic", "--api-key", "-")
    result = tinyagi(*arguments, stdin=b"sk\xe9\n", PYTHONIOENCODING="utf-8:strict")

    assert (result.returncode, b"not UTF-8" in result.stderr, b"Traceback" in result.stderr) == (2, True, False)


@pytest.mark.parametrize("arguments", [("send", "-"), ("queue", "cancel", "7")])
def test_a_closed_stdin_is_reported_without_a_traceback(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tinyagi", "--home", str(tmp_path), *arguments]
    shell_command = f"{shlex.join(command)} <&-"
    result = subprocess.run(["sh", "-c", shell_command], capture_output=True, text=True, check=False)

    assert result.returncode == 2
    assert result.stderr.startswith("tinyagi: ")
    assert "Traceback" not in result.stderr


async def test_an_argument_that_is_not_utf8_is_refused(remote: Remote) -> None:
    result = await remote("send", "gr\udcfc")

    assert result.exit_code == 1
    assert "not UTF-8" in result.stderr


@pytest.mark.parametrize("arguments", [("agent", "list"), ("agent", "list", "--json"), ("--help",)])
def test_unprintable_characters_are_replaced(shell: Shell, arguments: tuple[str, ...]) -> None:
    shell("agent", "add", "coder", "--name", "Zoë ✓", "--provider", "scripted")

    result = tinyagi("--home", str(shell.home.path), *arguments, PYTHONIOENCODING="ascii")

    assert result.returncode == 0, result.stderr
    assert result.stdout.isascii()
    assert b"Traceback" not in result.stderr


def test_bars_and_arrows_have_ascii_replacements() -> None:
    program = (
        "from tinyagi.cli.error_boundary import replace_unprintable; from tinyagi.cli.terminal import note, say\n"
        "replace_unprintable(); print('··██ ✓ Zoë'); say('└ a → b'); note('a…')"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=True)

    assert (result.stdout, result.stderr) == (b"..## + Zo?\n` a > b\n", b"a.\n")


def test_an_error_is_wrapped_at_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "TinyAGI is not running. Start it with: tinyagi start"
    monkeypatch.setenv("COLUMNS", "50")
    piped = wrapped(sentence)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    assert piped == sentence
    assert wrapped(sentence) == "TinyAGI is not running. Start it with: tinyagi\nstart"


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.EACCES, "Permission denied: /home/ada/.tinyagi/logs. Check the owner and the mode of this path."),
        (errno.ENOSPC, "No space left on device: /home/ada/.tinyagi/logs. Free some space and try again."),
        (errno.EIO, "Input/output error: /home/ada/.tinyagi/logs."),
    ],
)
def test_a_file_error_names_the_file(shell: Shell, monkeypatch: pytest.MonkeyPatch, number: int, sentence: str) -> None:
    def refuse(*_: object, **__: object) -> list[str]:
        raise OSError(number, os.strerror(number), "/home/ada/.tinyagi/logs")

    monkeypatch.setattr(logs, "_last", refuse)

    result = shell("logs")

    assert result.exit_code == FAILED
    assert result.stderr == f"tinyagi: {sentence}\n"


def test_a_full_disk_is_reported_without_a_traceback(shell: Shell) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "tinyagi", "--home", str(shell.home.path), "agent", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert result.returncode == FAILED
    assert result.stderr.decode() == "tinyagi: No space left on device. Free some space and try again.\n"


def test_a_closed_pipe_ends_the_command_silently(shell: Shell) -> None:
    shell.home.logs.mkdir(parents=True)
    (shell.home.logs / "daemon.log").write_text("a line that is long enough to matter\n" * 50_000)
    process = subprocess.Popen(
        [sys.executable, "-m", "tinyagi", "--home", str(shell.home.path), "logs", "-n", "50000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()

        assert process.stderr.read() == b""


async def test_a_text_that_is_too_long_is_refused_with_the_limit(remote: Remote, premises: Premises) -> None:
    result = await remote("send", "-", "--agent", "coder", stdin="x" * 3_000_000)

    assert result.exit_code == 1
    assert "1,048,576 bytes" in result.stderr
    assert "server.max_body_bytes" in result.stderr
    assert await premises.messages() == []


API_WORDS = ("/api/", "?messages", "runAt", "pattern", "pydantic", "List the agents")
LONG = "x" * 300


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("agent", "remove", "writer", "--yes"), "Add --messages dead to end them, or --messages move:<agent>"),
        (("agent", "remove", "writer", "--messages", "nonsense", "--yes"), "dead or move:<agent>"),
        (("agent", "remove", "nobody", "--yes"), "`tinyagi agent list` lists them."),
        (("schedule", "add", "--at", "2020-01-01T00:00", "--agent", "coder", "-m", "x"), "--at is 2020-"),
        (("schedule", "add", "--cron", "* * * * *", "--agent", "coder", "-m", "x", "--label", LONG), "--label: "),
        (("queue", "kill", "99", "--yes"), "`tinyagi queue status` lists the running ones."),
        (("queue", "pause", "nobody"), "`tinyagi agent list` lists them."),
        (("queue", "list", "--agent", "NO BODY"), "use lowercase letters, digits, - and _"),
        (("queue", "retry", "99", "--message", " "), "message: a text is needed"),
        (("chatroom", "nobody"), "`tinyagi team list` lists them."),
        (("trace", "nope"), "`tinyagi trace` lists recent ones."),
        (("send", "hello", "--sender", LONG), "sender: String should have at most 256 characters"),
    ],
)
async def test_errors_name_commands_and_options_instead_of_the_api(
    remote: Remote, premises: Premises, arguments: tuple[str, ...], sentence: str
) -> None:
    await remote("queue", "pause", "writer")
    await remote("send", "@writer waits")

    result = await remote(*arguments)

    assert result.exit_code in {1, 2}
    assert sentence in result.stderr
    assert [word for word in API_WORDS if word in result.stderr] == []


def test_an_interrupt_during_imports_ends_the_program_silently(tmp_path: Path) -> None:
    """A short command spends most of its time on imports, so that is when Ctrl-C arrives."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tinyagi.cli.queue':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
    )

    result = tinyagi("queue", "list", PYTHONPATH=str(tmp_path))

    assert (result.returncode, result.stderr) == (130, b"")
