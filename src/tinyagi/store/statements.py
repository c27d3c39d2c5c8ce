"""Reads the SQL of a dialect from its files: `-- name:` starts a statement, which ends where the next one starts."""

import re
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load_statements(dialect: str) -> Mapping[str, str]:
    """Every named statement of the dialect; a name that stands twice is refused."""
    found: dict[str, str] = {}
    for file in sorted(files("tinyagi.store").joinpath("sql", dialect).iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".sql"):
            continue
        parts = _NAME.split(file.read_text(encoding="utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise ValueError(f"The statement {name} stands twice in the SQL of {dialect}.")
            found[name] = _bare(body)
    return MappingProxyType(found)


def load_migrations(dialect: str) -> list[tuple[int, str, str]]:
    """Number, name and text of every migration, in order."""
    folder = files("tinyagi.store").joinpath("sql", dialect, "migrations")
    texts = [
        (entry.name, entry.read_text(encoding="utf-8")) for entry in folder.iterdir() if entry.name.endswith(".sql")
    ]
    return sorted((int(name[:4]), name.removesuffix(".sql"), text) for name, text in texts)


def _bare(body: str) -> str:
    """The statement without comments and line breaks: its text is the key by which a prepared one is found again."""
    lines = (line for line in body.splitlines() if not line.startswith("--"))
    return " ".join(" ".join(lines).split()).rstrip(";")
