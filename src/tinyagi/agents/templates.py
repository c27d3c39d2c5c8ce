"""The texts that come with the package: prompts, starter files and skills. Reading them is all that happens here."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

_PLACE: Final = re.compile(r"\{\{(\w+)\}\}")


@cache
def template(name: str) -> str:
    """The text of a template, by its path below `templates/`."""
    return files("tinyagi.agents").joinpath("templates", *name.split("/")).read_text(encoding="utf-8")


def template_folders(name: str) -> tuple[str, ...]:
    """Names of the folders in a folder below `templates/`, sorted."""
    folder = files("tinyagi.agents").joinpath("templates", *name.split("/"))
    return tuple(sorted(entry.name for entry in folder.iterdir() if entry.is_dir()))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put the values in the places of a template in one pass: a value that looks like a place stays as it is."""
    return _PLACE.sub(lambda place: values[place[1]], text)
