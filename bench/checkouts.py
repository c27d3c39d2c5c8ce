"""Checkouts of this repository: which Python runs one, and with what environment."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

BENCH: Final = Path(__file__).parent
CHECKOUT: Final = BENCH.parent
"""The checkout of this file."""


def python_of(checkout: Path) -> Path:
    """The Python of the checkout's environment, if it has one: it may need other versions."""
    own = checkout / ".venv/bin/python"
    return own if own.exists() else Path(sys.executable)


def environment_of(checkout: Path) -> Mapping[str, str]:
    """The environment of this process, with the checkout's sources to import."""
    return {**os.environ, "PYTHONPATH": str(checkout / "src")}
