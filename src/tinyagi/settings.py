"""Where things are. The only module that reads the environment."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that holds everything of one installation."""

    path: Path

    @property
    def database(self) -> Path:
        return self.path / "tinyagi.db"


def find_home() -> Home:
    """`TINYAGI_HOME`, else `~/.tinyagi`."""
    configured = os.environ.get("TINYAGI_HOME")
    return Home(Path(configured).expanduser() if configured else Path.home() / ".tinyagi")
