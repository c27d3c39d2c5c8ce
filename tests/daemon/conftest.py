"""A home for a daemon, and its settings."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tinyagi.settings.home import Home

WriteSettings = Callable[..., None]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.prepare()
    return home


@pytest.fixture
def write_settings(home: Home, tmp_path: Path) -> WriteSettings:
    """Write settings with one scripted agent; each argument replaces or adds a section."""

    def write(**sections: object) -> None:
        settings = {
            "workspace": {"path": str(tmp_path / "workspace")},
            "agents": {"coder": {"provider": "scripted"}},
            **sections,
        }
        home.settings_file.write_text(json.dumps(settings), encoding="utf-8")
        home.settings_file.chmod(0o600)

    return write
