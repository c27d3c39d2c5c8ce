"""Lakes that many tests read. Each is made once per test session and kept in its folder."""

import asyncio
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from tests.pipeline.bad_events import REASONS, bad_events
from tests.pipeline.scenario import Home, live
from tests.pipeline.support import MONDAY, append_history, insert_events, raw_events, run, write_history
from tests.support.legacy import make_v0_0_20
from tinyagi.domain.events import RecordedEvent
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.progress import Summary

EARLY: Final = 300
LATE: Final = 260
"""Approximate numbers of events."""


@dataclass(frozen=True)
class Traffic:
    """Days of generated traffic: the log, a lake of its early part, and a lake of all of it."""

    folder: Path

    @property
    def early_database(self) -> Path:
        return self.folder / "early.db"

    @property
    def database(self) -> Path:
        return self.folder / "tinyagi.db"

    @property
    def early_lake(self) -> Lake:
        return Lake(self.folder / "early")

    @property
    def lake(self) -> Lake:
        return Lake(self.folder / "lake")

    @property
    def head(self) -> int:
        return raw_events(self.database)[-1].id


def traffic(spark: SparkSession, factory: pytest.TempPathFactory) -> Traffic:
    made = Traffic(factory.getbasetemp() / "traffic")
    if not (made.folder / "done").exists():
        shutil.rmtree(made.folder, ignore_errors=True)
        made.folder.mkdir()
        write_history(made.early_database, EARLY)
        shutil.copyfile(made.early_database, made.database)
        append_history(made.database, LATE)
        # In two batches: bronze has files that can be joined.
        run(spark, made.early_lake, made.early_database, batch_events=EARLY * 2 // 3)
        run(spark, made.lake, made.database)
        (made.folder / "done").touch()
    return made


@dataclass(frozen=True)
class Whole:
    """A home imported from the original program, with every kind of event and many invalid ones."""

    folder: Path

    @property
    def database(self) -> Path:
        return self.folder / "tinyagi.db"

    @property
    def original(self) -> Path:
        """The database as the original program left it."""
        return self.folder / "original.db"

    @property
    def lake(self) -> Lake:
        return Lake(self.folder / "lake")

    @property
    def bad(self) -> Mapping[str, int]:
        """Invalid events by label."""
        found: dict[str, int] = json.loads((self.folder / "bad.json").read_text())
        return found

    @property
    def summary(self) -> Summary:
        """Of the only run."""
        loaded: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return Summary(**loaded)

    def valid_events(self) -> list[RecordedEvent]:
        """All events except the quarantined ones."""
        rejected = {number for label, number in self.bad.items() if label in REASONS}
        return [event for event in raw_events(self.database) if event.id not in rejected]


def whole(spark: SparkSession, factory: pytest.TempPathFactory) -> Whole:
    made = Whole(factory.getbasetemp() / "whole")
    if not (made.folder / "done").exists():
        shutil.rmtree(made.folder, ignore_errors=True)
        made.folder.mkdir()
        make_v0_0_20(made.original)
        shutil.copyfile(made.original, made.database)
        asyncio.run(live(Home(made.database, MONDAY)))
        odd = bad_events(raw_events(made.database))
        numbers = insert_events(made.database, list(odd.values()))
        (made.folder / "bad.json").write_text(json.dumps(dict(zip(odd, numbers, strict=True))))
        summary = run(spark, made.lake, made.database)
        (made.folder / "summary.json").write_text(json.dumps(asdict(summary)))
        (made.folder / "done").touch()
    return made
