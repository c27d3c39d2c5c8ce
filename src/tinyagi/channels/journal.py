"""What a relay has delivered and not yet acknowledged, so that a killed one does not deliver it again."""

import json
import os
from pathlib import Path
from typing import IO, Final, Self

_COMPACT_LINES: Final = 2_000
_LONGEST_MEMORY: Final = 5_000
"""Notices that are remembered; older ones are forgotten."""


class DeliveryJournal:
    """An append-only file of JSON lines. Each line is handed to the system at once, so only a power cut loses it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._delivered: dict[str, str] = {}
        self._lines = 0
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        self._load()
        self._rewrite()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def sent(self, key: str) -> str | None:
        """The platform's id of a part that was delivered; None when it was not."""
        return self._delivered.get(key)

    def record(self, key: str, sent: str) -> None:
        """Remember a delivered part until `forget`."""
        self._delivered[key] = sent
        self._append({"key": key, "sent": sent})
        if len(self._delivered) > _LONGEST_MEMORY:
            del self._delivered[next(iter(self._delivered))]

    def forget(self, keys: list[str]) -> None:
        """Forget the parts of an acknowledged response."""
        known = [key for key in keys if self._delivered.pop(key, None) is not None]
        if known:
            self._append({"forget": known})

    def _load(self) -> None:
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                # The process was killed within this line.
                continue
            if isinstance(entry, dict):
                self._apply(entry)

    def _apply(self, entry: dict[str, object]) -> None:
        key, sent, forgotten = entry.get("key"), entry.get("sent"), entry.get("forget")
        if isinstance(key, str) and isinstance(sent, str):
            self._delivered[key] = sent
        if isinstance(forgotten, list):
            for one in forgotten:
                self._delivered.pop(str(one), None)

    def _rewrite(self) -> None:
        """Replace the file by one with the current entries only."""
        self.__exit__()
        aside = self._path.with_suffix(".new")
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
            file.writelines(_line({"key": key, "sent": sent}) for key, sent in self._delivered.items())
        aside.replace(self._path)
        self._lines = len(self._delivered)
        self._file = self._path.open("a", encoding="utf-8")

    def _append(self, entry: dict[str, object]) -> None:
        if self._file is None:
            raise ValueError("The journal is closed.")
        self._file.write(_line(entry))
        self._file.flush()
        self._lines += 1
        if self._lines > _COMPACT_LINES and self._lines > 2 * len(self._delivered):
            self._rewrite()


def _line(entry: dict[str, object]) -> str:
    return json.dumps(entry, ensure_ascii=False) + "\n"
