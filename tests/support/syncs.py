"""Records syncs to the disk, and named steps between them."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest


class Syncs:
    """Inodes in the order of their `os.fsync`, with the steps that the test names in between."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[int | str] = []
        self._patch = monkeypatch
        fsync = os.fsync

        def note(descriptor: int) -> None:
            fsync(descriptor)
            self.steps.append(os.fstat(descriptor).st_ino)

        monkeypatch.setattr(os, "fsync", note)

    def watch(self, port: object, method: str) -> None:
        """Record each call of a port's method as a step, before it is carried out."""
        call: Callable[..., Awaitable[Any]] = getattr(port, method)

        async def noted(*arguments: Any, **options: Any) -> Any:
            self.steps.append(method)
            return await call(*arguments, **options)

        self._patch.setattr(port, method, noted)

    def came_before(self, step: str, *paths: Path) -> bool:
        """True when each of these files and folders was flushed before the first such step."""
        earlier = self.steps[: self.steps.index(step)]
        return all(path.stat().st_ino in earlier for path in paths)
