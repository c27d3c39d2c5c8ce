"""Processes that write settings at the same time, or die during a write."""

import json
import os
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tinyagi.settings.home import Home
from tinyagi.settings.settings_file import SettingsFile

STEPS = ("open", "fsync", "replace", "unlink", "close")
"""System calls of a save; the child dies before one of them."""


def add_names(home: Home, name: str, many: int) -> None:
    """Add own entries and append to a list that all writers share."""
    document = SettingsFile(home)
    for number in range(many):
        document.update({"mine": {f"{name}-{number}": True}})
        document.edit(lambda raw: {"shared": [*_list_of(raw.get("shared")), name]})


def write_for_ever(home: Home) -> None:
    """Write growing numbers, each one twice, until the process is killed."""
    document = SettingsFile(home)
    for number in count(_first_number(document)):
        document.update({"first": number, "padding": "x" * 20_000, "second": number})
        print(number, flush=True)  # noqa: T201 - the parent reads which ones were acknowledged


def die_at_every_step(home: Home) -> None:
    """Save in children that die before their first, second, … system call, and print the result.

    Each line is the file's content after such a death, the newest backup's, and that after the next save.
    """
    document = SettingsFile(home)
    for step in count():
        document.update({"mine": "old"})
        child = os.fork()
        if child == 0:
            _die_at(document, step)
        _, status = os.waitpid(child, 0)
        left = home.settings_file.read_bytes().decode()
        backup = max(home.backups.glob("settings-*.json")).read_bytes().decode()
        after = document.update({"mine": "next"}).content.decode()
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps([code, left, backup, after]), flush=True)  # noqa: T201 - the parent reads it
        if code != 9:
            return


def _die_at(document: SettingsFile, step: int) -> None:
    left = count(step, -1)

    def dying(call: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*args: object, **keywords: object) -> object:
            if next(left) == 0:
                os._exit(9)
            return call(*args, **keywords)

        return wrapped

    for name in STEPS:
        setattr(os, name, dying(getattr(os, name)))
    document.update({"mine": "new"})
    os._exit(0)


def _first_number(document: SettingsFile) -> int:
    loaded = document.read()
    number = loaded.raw.get("first", 0) if loaded else 0
    assert isinstance(number, int)
    return number + 1


def _list_of(value: object) -> list[object]:
    return value if isinstance(value, list) else []


if __name__ == "__main__":
    home, words = Home(Path(sys.argv[2])), sys.argv[3:]
    match sys.argv[1]:
        case "add":
            add_names(home, words[0], int(words[1]))
        case "for-ever":
            write_for_ever(home)
        case "die":
            die_at_every_step(home)
