"""Following growing logs, and readable log lines."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tinyagi.cli.logs import readable_line
from tinyagi.daemon.log_files import LogLine, RotatingLogFile, log_json
from tinyagi.log_reader import LogFollower


@pytest.fixture
def followed(tmp_path: Path) -> Iterator[LogFollower]:
    (tmp_path / "queue.log").write_text("old\n")
    found = LogFollower(tmp_path, "all")
    yield found
    found.close()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_only_new_complete_lines_are_returned(tmp_path: Path, followed: LogFollower) -> None:
    assert followed.poll() == []
    append(tmp_path / "queue.log", "one\ntw")
    assert followed.poll() == ["one"]
    append(tmp_path / "queue.log", "o\n")
    assert followed.poll() == ["two"]


def test_a_rotated_file_is_followed_without_a_gap(tmp_path: Path, followed: LogFollower) -> None:
    file = RotatingLogFile(tmp_path / "queue.log", max_bytes=20)
    for number in range(2):
        file.append(f"line {number}")
    file.append("begins a new file")
    file.close()

    assert (tmp_path / "queue.log.1").exists()
    assert followed.poll() == ["line 0", "line 1", "begins a new file"]


def test_a_new_log_is_read_from_its_beginning(tmp_path: Path, followed: LogFollower) -> None:
    append(tmp_path / "telegram.log", "hello\n")

    assert followed.poll() == ["hello"]


def test_a_single_log_can_be_followed(tmp_path: Path) -> None:
    followed = LogFollower(tmp_path, "daemon")
    append(tmp_path / "queue.log", "not this\n")
    append(tmp_path / "daemon.log", "this\n")

    assert followed.poll() == ["this"]
    followed.close()


def test_a_symbolic_link_is_not_followed_as_a_log(tmp_path: Path, followed: LogFollower) -> None:
    (tmp_path / "secret").write_text("mine\n")
    (tmp_path / "evil.log").symlink_to(tmp_path / "secret")

    assert followed.poll() == []


def test_a_readable_line_has_time_level_logger_agent_and_text() -> None:
    line = log_json(LogLine(0, "warning", "tinyagi.engine.lane", "it\nfailed", {"agent": "coder"}, "Traceback\n  here"))

    first, *trace = readable_line(line).split("\n")

    assert first.endswith("warning engine.lane @coder: it failed")
    assert first[:4] in {"1969", "1970"}
    assert trace == ["    Traceback", "      here"]


@pytest.mark.parametrize("line", ["no json\x1b[2J", "[1]", "{", '{"time": 7, "text": null}', "[" * 100_000])
def test_malformed_lines_are_shown_without_control_characters(line: str) -> None:
    assert "\x1b" not in readable_line(line)
