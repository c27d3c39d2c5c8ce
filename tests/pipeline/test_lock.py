"""One writer per lake: the second gets the name of the first, and dead processes hold no lock."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.support import python_path
from tinyagi.pipeline.errors import LakeBusy
from tinyagi.pipeline.lake import Lake, writer_lock
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.spark.lake_session import open_for_writing
from tinyagi.pipeline.spark.session import SparkSetup

HOLDER = """
import sys
from pathlib import Path
from tinyagi.pipeline.lake import writer_lock
with writer_lock(Path(sys.argv[1]), "backfill"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_refused_with_the_first_until_that_one_is_dead(tmp_path: Path) -> None:
    lake, setup = Lake(tmp_path / "lake"), SparkSetup({})
    command = (sys.executable, "-c", HOLDER, lake.folder)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={"PYTHONPATH": python_path()}, **pipes) as holder:  # type: ignore[call-overload]
        try:
            assert holder.stdout.readline() == b"held\n"
            sentence = rf"{lake.folder} is being written by `pipeline backfill`, process {holder.pid}\. Try again"
            # The lock is checked before Java: this environment has none.
            with pytest.raises(LakeBusy, match=sentence), open_for_writing(lake, setup, "run", Progress()):
                pytest.fail("two writers")
        finally:
            holder.kill()
        holder.wait()

        with writer_lock(lake.folder, "run"), pytest.raises(LakeBusy, match="`pipeline run`"):
            writer_lock(lake.folder, "vacuum").__enter__()

    with writer_lock(lake.folder, "vacuum"):
        assert "vacuum" in (lake.folder / ".writer.lock").read_text()


def test_files_of_a_writer_are_private(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with writer_lock(tmp_path / "lake", "run"):
            (tmp_path / "lake" / "folder").mkdir()
            (tmp_path / "lake" / "file").touch()
        (tmp_path / "later").touch()
    finally:
        os.umask(before)

    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("lake/folder", "lake/file", "later")]
    assert modes == [0o700, 0o600, 0o644]
