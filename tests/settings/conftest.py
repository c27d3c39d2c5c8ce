"""A home in a temporary folder."""

import json
from pathlib import Path

import pytest

from tinyagi.settings.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


def write(home: Home, raw: dict[str, object]) -> None:
    """Write settings as a person with an editor does: in place."""
    home.settings_file.write_text(json.dumps(raw), encoding="utf-8")


def stored(home: Home) -> dict[str, object]:
    found = json.loads(home.settings_file.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def backups(home: Home) -> list[Path]:
    """Oldest first."""
    return sorted(home.backups.glob("settings-*.json"))
