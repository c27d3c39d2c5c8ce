"""How texts reach people, as the settings want it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Style:
    """How answers reach people."""

    suffix: bool = True
    """Say at the end which agent answered."""
    long_answer: int = 4_000
    """Characters beyond which the full text is attached as a file and a preview is sent."""
