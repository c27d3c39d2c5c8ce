"""The class archive: Spark's classes as the JVM has them in memory, in a file, so that it need not load them again.

A session uses the archive of its Java when there is one. `class_archive_maker.py` makes it, in a process of its own,
because a JVM needs up to a minute to write it.
"""

import contextlib
import hashlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import pyspark

from tinyagi.pipeline.spark.java import Java
from tinyagi.pipeline.spark.session_settings import Size, jvm_options
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import make_private

MAKER: Final = "tinyagi.pipeline.spark.class_archive_maker"
ARCHIVE_SIZE: Final = Size.FEW
"""The size of the sessions that make an archive and use it: a small run gains most."""
AGAIN_AFTER: Final = timedelta(days=1)
"""A failed attempt for the same archive is repeated after this time."""
MOST_FILES: Final = 2
MOST_BYTES: Final = 500_000_000

_ATTEMPT: Final = "attempt"
"""Holds the name of the archive that was tried last."""
_FORMAT: Final = 2
"""Part of the key; increase it when the maker's queries change."""
_AOT_CACHE: Final = 25
"""The first Java whose archive is called an AOT cache."""
# Spark's launcher puts their values on the class path.
_CLASS_PATH_VARIABLES: Final = ("SPARK_DIST_CLASSPATH", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
# The shell ends at once, so the maker is no child of this process: it needs no wait.
_IN_BACKGROUND: Final = 'nice -n 19 "$@" &'

log = logging.getLogger("tinyagi.pipeline")


@dataclass(slots=True)
class ClassArchives:
    """The class archives of one home, for the sessions of this process."""

    folder: Path
    _missing: tuple[Path, str] | None = field(default=None, init=False)
    """The archive that the last session did not find, and its memory."""

    def options(self, java: Java, memory: str) -> tuple[str, ...]:
        """JVM options that use the archive of this Java; none when there is no archive yet."""
        file = archive_file(self.folder, java, memory)
        if not file.is_file():
            self._missing = file, memory
            return ()
        # The archive that was not used for the longest time is removed first.
        with contextlib.suppress(OSError):
            os.utime(file)
        name = "AOTCache" if java.version >= _AOT_CACHE else "SharedArchiveFile"
        return (f"-XX:{name}={file}", *_quiet(java))

    def make_missing(self, *, now: float) -> None:
        """Start the maker in the background if a session found no archive; `now` is in seconds."""
        if self._missing is None:
            return
        (file, memory), self._missing = self._missing, None
        if failed_lately(file, now=now):
            return
        try:
            make_private(self.folder)
            subprocess.run(  # noqa: S603
                ["/bin/sh", "-c", _IN_BACKGROUND, "sh", sys.executable, "-m", MAKER, str(self.folder), memory],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Spark's temporary files must not lie in the user's folder.
                cwd=self.folder,
                # The daemon ends all processes of the session that its run belongs to.
                start_new_session=True,
                check=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            log.debug("No class archive: its maker does not start: %s", error)


def archive_file(folder: Path, java: Java, memory: str) -> Path:
    """The archive of this Java, Spark and memory. A change of any of them gives another name, so a stale one is unused.

    The memory counts because the JVM lays out objects differently in a very large heap.
    """
    key = [
        _FORMAT,
        str(java.program),
        java.build,
        _stamp(java.program.resolve().parent.parent / "lib" / "modules"),
        pyspark.__version__,
        [_stamp(jar) for jar in _jars()],
        [snapshot().get(name) for name in _CLASS_PATH_VARIABLES],
        list(jvm_options(ARCHIVE_SIZE)),
        memory,
    ]
    return folder / f"classes-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]}.jsa"


def making_options(java: Java, file: Path) -> tuple[str, ...]:
    """JVM options that write the archive when the JVM ends."""
    name = "AOTCacheOutput" if java.version >= _AOT_CACHE else "ArchiveClassesAtExit"
    return (f"-XX:{name}={file}", *_quiet(java))


def note_attempt(file: Path) -> None:
    """Record that a process begins to make this archive."""
    (file.parent / _ATTEMPT).write_text(file.name, encoding="utf-8")


def failed_lately(file: Path, *, now: float) -> bool:
    """True when this archive was tried within `AGAIN_AFTER`: a Java that cannot write it would fail after every run."""
    attempt = file.parent / _ATTEMPT
    try:
        name, tried_at = attempt.read_text(encoding="utf-8"), attempt.stat().st_mtime
    except FileNotFoundError:
        return False
    return name == file.name and 0 <= now - tried_at < AGAIN_AFTER.total_seconds()


def archives_in(folder: Path) -> list[Path]:
    """The finished archives, the one used last first."""
    return sorted(folder.glob("classes-*.jsa"), key=lambda file: file.stat().st_mtime_ns, reverse=True)


def remove_old(folder: Path) -> None:
    """Delete the archives beyond the limits of number and size."""
    total = 0
    for number, file in enumerate(archives_in(folder), start=1):
        total += file.stat().st_size
        if number > MOST_FILES or total > MOST_BYTES:
            file.unlink()


def _quiet(java: Java) -> tuple[str, ...]:
    """The JVM ignores an archive that does not fit, and works as without it; the user need not know."""
    return ("-Xlog:cds*=off", *(("-Xlog:aot*=off",) if java.version >= _AOT_CACHE else ()))


def _jars() -> Iterator[Path]:
    return iter(sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar")))


def _stamp(file: Path) -> list[object]:
    """Path, size and time of a file; only the path when it does not exist."""
    try:
        found = file.stat()
    except OSError:
        return [str(file)]
    return [str(file), found.st_size, found.st_mtime_ns]
