"""Programs that cannot be started: the reason names the cause and the remedy."""

import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import QUICK, a_program, executable
from tinyagi.domain.retry import Failure, FailureKind
from tinyagi.providers.base import RunFailed
from tinyagi.providers.process import run_child


async def failure_of(path: str, cwd: Path, *arguments: str) -> Failure:
    with pytest.raises(RunFailed) as caught:
        await run_child(
            a_program(path),
            arguments,
            stdin=b"",
            cwd=cwd,
            environment={"PATH": os.environ["PATH"]},
            limits=QUICK,
            on_line=lambda line: None,
        )
    return caught.value.failure


async def test_a_missing_program_is_reported_with_the_install_command(tmp_path: Path) -> None:
    failure = await failure_of("no-such-program", tmp_path)
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, True)
    assert "no-such-program" in failure.reason
    assert "npm install program" in failure.reason


async def test_a_file_that_is_not_a_program_is_reported(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("hello")
    (tmp_path / "empty").touch(mode=0o755)
    (tmp_path / "empty").write_bytes(b"\x7fELF but not really")
    for name in ("plain", "empty", "."):
        failure = await failure_of(str(tmp_path / name), tmp_path)
        assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, True)
        assert "npm install program" in failure.reason


async def test_a_missing_workspace_is_not_reported_as_a_missing_program(tmp_path: Path) -> None:
    program = executable(tmp_path, "")
    (tmp_path / "file").touch()
    for workspace in (tmp_path / "gone", tmp_path / "file"):
        failure = await failure_of(program, workspace)
        assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, True)
        assert f"The workspace {workspace} cannot be entered" in failure.reason
        assert "npm" not in failure.reason


async def test_an_argument_with_a_nul_byte_is_reported(tmp_path: Path) -> None:
    failure = await failure_of(executable(tmp_path, ""), tmp_path, "a\x00b")
    assert "null byte" in failure.reason


async def test_an_argument_that_is_too_long_is_a_message_failure(tmp_path: Path) -> None:
    failure = await failure_of(executable(tmp_path, ""), tmp_path, "x" * 10_000_000)
    assert failure.kind is FailureKind.MESSAGE
    assert "command line" in failure.reason


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
async def test_a_lack_of_resources_is_a_temporary_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    failure = await failure_of("program", tmp_path)
    assert (failure.kind, failure.needs_person) == (FailureKind.UNAVAILABLE, False)
    assert os.strerror(number) in failure.reason
