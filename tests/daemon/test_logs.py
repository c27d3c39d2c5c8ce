"""The daemon's logs: JSON lines that cannot be forged, without secrets, in files of bounded size."""

import json
import logging
import os
import stat
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.builders import a_message
from tinyagi.daemon import logs
from tinyagi.daemon.log_files import MAX_CHARS, LogLine, RotatingLogFile, log_json, log_text
from tinyagi.daemon.logs import LogWriter, file_of, logging_to
from tinyagi.daemon.redaction import Redactor
from tinyagi.domain.ids import ClaimId, MessageId
from tinyagi.domain.messages import Message
from tinyagi.domain.runs import Claim
from tinyagi.engine import active_run
from tinyagi.settings.home import Home


def unchanged(text: str) -> str:
    return text


def a_run(message: Message) -> Claim:
    return Claim(ClaimId("c1"), message.agent, (message,), started_at=0, lease_until=1, holds=0)


def a_failure(text: str) -> ValueError:
    """An exception with a traceback."""
    try:
        int(text)
    except ValueError as error:
        return error
    raise AssertionError


def lines_of(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@pytest.mark.parametrize(
    ("logger", "file"),
    [
        ("tinyagi.engine.lane", "queue.log"),
        ("tinyagi.store", "queue.log"),
        ("tinyagi.providers.claude", "queue.log"),
        ("tinyagi.agents.skills", "queue.log"),
        ("tinyagi.plugins.shout", "queue.log"),
        ("tinyagi.server.app", "daemon.log"),
        ("tinyagi.pipeline", "pipeline.log"),
        ("tinyagi.pipeline.lake", "pipeline.log"),
        ("tinyagi.enginesque", "daemon.log"),
        ("tinyagi.channels.telegram", "telegram.log"),
        ("tinyagi.channels.telegram.polling", "telegram.log"),
        ("tinyagi.channels", "daemon.log"),
        ("tinyagi.channels.../../etc/passwd", "daemon.log"),
        ("uvicorn.error", "daemon.log"),
        ("root", "daemon.log"),
    ],
)
def test_every_logger_has_a_file(logger: str, file: str) -> None:
    assert file_of(logger) == file


def test_a_line_has_time_level_logger_and_text_in_a_private_file(tmp_path: Path) -> None:
    with logging_to(tmp_path, unchanged):
        logging.getLogger("tinyagi.engine.lane").info("run %d\nbegins", 7)

    (line,) = lines_of(tmp_path / "queue.log")
    assert datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line == {"level": "info", "logger": "tinyagi.engine.lane", "text": "run 7\nbegins"}
    assert stat.S_IMODE((tmp_path / "queue.log").stat().st_mode) == 0o600


def test_a_line_within_a_run_carries_its_ids(tmp_path: Path) -> None:
    message = a_message()
    with logging_to(tmp_path, unchanged), active_run.log_run(a_run(message)):
        logging.getLogger("tinyagi.engine.lane").info("begins")

    (line,) = lines_of(tmp_path / "queue.log")
    assert line["agent"] == message.agent
    assert line["messageId"] == message.message_id
    assert line["conversationId"] == message.conversation_id


def test_an_exception_is_a_field_of_the_same_line(tmp_path: Path) -> None:
    with logging_to(tmp_path, unchanged):
        logging.getLogger("tinyagi.server").error("it broke", exc_info=a_failure("two\nlines"))

    (line,) = lines_of(tmp_path / "daemon.log")
    assert line["text"] == "it broke"
    assert line["trace"].startswith("Traceback")
    assert "ValueError: " in line["trace"]


@given(text=st.text(), other=st.text(st.characters()))
def test_no_text_can_start_a_second_line(text: str, other: str) -> None:
    line = log_json(LogLine(0, "info", "tinyagi", text, {"agent": other}, other or None))

    assert line.splitlines() == [line]
    assert not any(mark < " " or "\x7f" <= mark <= "\x9f" for mark in line)
    assert json.loads(line)["text"] == text


@given(text=st.text(), logger=st.text())
def test_a_shown_line_is_one_line_without_control_characters(text: str, logger: str) -> None:
    shown = log_text(LogLine(0, "info", logger, text, {}))

    assert shown.splitlines() == [shown]
    assert "\x1b" not in shown
    assert "\x9b" not in shown


def test_a_long_text_is_shortened_in_the_middle() -> None:
    line = json.loads(log_json(LogLine(0, "info", "tinyagi", "a" * 50_000 + "b" * 50_000, {})))

    assert len(line["text"]) < MAX_CHARS + 100
    assert line["text"].startswith("aaa")
    assert line["text"].endswith("bbb")


def test_a_long_text_is_cut_early_and_a_secret_at_the_cut_is_hidden(home: Home) -> None:
    secret = "correct-horse-battery"
    record = logging.LogRecord("tinyagi", logging.INFO, __file__, 1, "a" * (logs.MAX_CHARS - 10) + secret * 2, (), None)

    text = logs._line_of(record).text

    assert len(text) == logs.MAX_CHARS + 1
    assert text.endswith("correct-ho…")
    assert Redactor(home, {"MY_TOKEN": secret})(text).endswith("a••••…")


def test_a_secret_reaches_no_field_and_no_screen(tmp_path: Path) -> None:
    shown: list[str] = []
    with logging_to(tmp_path, lambda text: text.replace("hunter22", "••••"), show=shown.append):
        logging.getLogger("tinyagi.engine").error("hunter22 %s", {"a": "hunter22"}, exc_info=a_failure("hunter22"))
        with active_run.log_run(a_run(a_message(message_id=MessageId("hunter22")))):
            logging.getLogger("tinyagi.engine").info("begins")
        print("hunter22")  # noqa: T201
        sys.stderr.write("hunter22\n")

    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "hunter22" not in written + "".join(shown)
    # Twice in the text, once in the trace, twice as ids of a run, and twice as printed text.
    assert written.count("••••") == 7


def test_printed_text_is_logged_line_by_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with logging_to(tmp_path, unchanged):
        print("one\ntwo", end="")  # noqa: T201
        print(" and a half")  # noqa: T201
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("beware", stacklevel=1)

    lines = lines_of(tmp_path / "daemon.log")
    assert [line["text"] for line in lines[:2]] == ["one", "two and a half"]
    assert lines[0]["logger"] == "tinyagi.stdout"
    assert "beware" in lines[2]["text"]
    assert capsys.readouterr() == ("", "")


def test_the_screen_shows_lines_of_its_level_and_nothing_twice(tmp_path: Path) -> None:
    shown: list[str] = []
    with logging_to(tmp_path, unchanged, show=shown.append, level=logging.WARNING):
        log = logging.getLogger("tinyagi.engine")
        log.info("quiet")
        log.warning("loud")
        log.warning("said", extra={logs.ALREADY_SHOWN: True})

    assert [line.rpartition(": ")[2] for line in shown] == ["loud"]
    assert [line["text"] for line in lines_of(tmp_path / "queue.log")] == ["quiet", "loud", "said"]


def test_logging_is_restored_afterwards(tmp_path: Path) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), sys.stdout, sys.stderr, logging.getLogger("httpx").level)

    with logging_to(tmp_path, unchanged):
        assert sys.stdout is not before[2]

    assert (root.level, list(root.handlers), sys.stdout, sys.stderr, logging.getLogger("httpx").level) == before


def test_a_wrong_logging_call_is_logged_as_an_error() -> None:
    class Grumpy:
        def __str__(self) -> str:
            raise RuntimeError("no")

    for arguments, name in (("three", "TypeError"), (Grumpy(), "TypeError"), ((1, 2), "TypeError")):
        record = logging.LogRecord("tinyagi", logging.INFO, __file__, 1, "%d", (arguments,), None)
        assert name in logs._line_of(record).text
    record = logging.LogRecord("tinyagi", logging.INFO, __file__, 1, Grumpy(), (), None)
    assert "RuntimeError" in logs._line_of(record).text


def test_unwritten_lines_are_counted_and_reported(tmp_path: Path) -> None:
    shown: list[str] = []
    folder = tmp_path / "logs"
    folder.write_text("a file where the folder should be")
    log = LogWriter(folder, unchanged, show=shown.append)
    for number in range(3):
        log.put(LogLine(number, "info", "tinyagi.engine", f"line {number}", {}), shown=True)
    repaired = threading.Event()

    def repair(text: str) -> str:
        if text == "repair":
            folder.unlink()
            repaired.set()
        return text

    log._redact = repair
    log.put(LogLine(3, "info", "tinyagi.engine", "repair", {}), shown=True)
    log.start()
    assert repaired.wait(60)
    log.close()

    assert [line["text"] for line in lines_of(folder / "queue.log")] == ["repair"]
    (report,) = lines_of(folder / "daemon.log")
    assert report["text"].startswith("3 log lines were not written: ")
    assert len(shown) == 1
    assert "cannot be written" in shown[0]


def test_lines_beyond_the_queue_limit_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_QUEUED", 5)
    log = LogWriter(tmp_path, unchanged)
    for number in range(12):
        log.put(LogLine(number, "info", "tinyagi.engine", f"line {number}", {}), shown=True)
    # Started before it is closed: the sentinel that ends the thread needs room in the full queue.
    log.start()
    log.close()

    assert len(lines_of(tmp_path / "queue.log")) == 5
    assert lines_of(tmp_path / "daemon.log")[0]["text"].startswith("7 log lines were not written")


def test_a_failing_redaction_drops_the_line_and_logging_continues(tmp_path: Path) -> None:
    def fragile(text: str) -> str:
        if "bad" in text:
            raise RecursionError
        return text

    with logging_to(tmp_path, fragile):
        logging.getLogger("tinyagi.engine").info("bad")
        logging.getLogger("tinyagi.engine").info("good")

    assert [line["text"] for line in lines_of(tmp_path / "queue.log")] == ["good"]
    assert "1 log lines were not written: RecursionError" in (tmp_path / "daemon.log").read_text()


def test_a_full_file_is_rotated_and_the_oldest_one_deleted(tmp_path: Path) -> None:
    file = RotatingLogFile(tmp_path / "a.log", max_bytes=30, kept=2)
    for number in range(10):
        file.append(f"line number {number}")
    file.close()

    kept = {path.name: path.read_text().split("\n")[:-1] for path in tmp_path.iterdir()}
    assert kept == {
        "a.log": ["line number 8", "line number 9"],
        "a.log.1": ["line number 6", "line number 7"],
        "a.log.2": ["line number 4", "line number 5"],
    }
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())


def test_a_moved_file_is_created_again(tmp_path: Path) -> None:
    file = RotatingLogFile(tmp_path / "a.log")
    file.append("before")
    (tmp_path / "a.log").rename(tmp_path / "moved")
    file.append("after")
    file.close()

    assert (tmp_path / "moved").read_text() == "before\n"
    assert (tmp_path / "a.log").read_text() == "after\n"


def test_a_partly_written_line_does_not_spoil_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RotatingLogFile(tmp_path / "a.log")
    file.append("whole")
    write: Callable[[int, bytes], int] = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
        with pytest.raises(OSError, match="in part"):
            file.append("cut off")
    file.append("next")
    file.close()

    assert (tmp_path / "a.log").read_text() == "whole\ncut\nnext\n"


def test_a_link_in_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "a.log").symlink_to(tmp_path / "elsewhere")
    file = RotatingLogFile(tmp_path / "a.log")

    with pytest.raises(OSError, match="symbolic"):
        file.append("line")
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_lines_of_many_threads_stay_whole(tmp_path: Path) -> None:
    def talk(number: int) -> None:
        for turn in range(50):
            print(f"thread {number} turn {turn}")  # noqa: T201

    with logging_to(tmp_path, unchanged):
        threads = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    texts: list[Mapping[str, str]] = list(lines_of(tmp_path / "daemon.log"))
    assert {line["text"] for line in texts} == {f"thread {n} turn {t}" for n in range(4) for t in range(50)}
