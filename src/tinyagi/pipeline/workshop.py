"""Where tables are written: the session, the lake, and the way from a frame to a commit."""

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from tinyagi.pipeline.delta.commit import Change, Committed, Staged, commit
from tinyagi.pipeline.delta.snapshot import DataFile, Snapshot, open_pinned, open_snapshot
from tinyagi.pipeline.errors import LakeChanged
from tinyagi.pipeline.frames import read_files, staged
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.progress import Progress

ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class Inspected:
    """What the staged files turned out to hold."""

    through_id: int
    facts: Mapping[str, object]
    """Remembered with the commit."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one commit is to do, worked out on one snapshot."""

    rows: DataFrame | None
    """None when nothing but the last event changes."""
    through_id: int
    replaced: Sequence[DataFile] = ()
    dates: frozenset[dt.date] | None = None
    """The only days that rows may lie on; None is any."""
    arranged: bool = True
    inspect: Callable[[Staged], Inspected | None] | None = None
    """Looks at the staged files before they are taken; None from it leaves the table as it is."""


@dataclass(frozen=True, slots=True)
class Workshop:
    spark: SparkSession
    lake: Lake
    progress: Progress
    is_pinned: bool = False
    """Only reads, and sees every table as of the manifest."""

    def open(self, name: str) -> Snapshot:
        return open_pinned(self.lake, name) if self.is_pinned else open_snapshot(self.lake, name)

    def read(self, snapshot: Snapshot, files: Sequence[DataFile] | None = None) -> DataFrame:
        return read_files(self.spark, snapshot, files)

    def write(self, name: str, plan: Callable[[Snapshot], Plan | None]) -> Committed | None:
        """Plan on the newest snapshot and commit; None when there is nothing to do. On conflict plan again."""
        for attempt in range(1, ATTEMPTS + 1):
            snapshot = self.open(name)
            planned = plan(snapshot)
            if planned is None:
                return None
            self.progress.planned(name)
            try:
                done = self._carry_out(snapshot, planned)
            except LakeChanged:
                if attempt == ATTEMPTS:
                    raise
                continue
            if done is not None:
                self.progress.committed(name, done.rows)
            return done
        return None

    def _carry_out(self, snapshot: Snapshot, plan: Plan) -> Committed | None:
        name = snapshot.table.name
        if plan.rows is None:
            return commit(snapshot, Change(plan.through_id, replaced=plan.replaced))
        with staged(plan.rows, snapshot, arranged=plan.arranged) as files:
            self.progress.staged(name)
            found = Inspected(plan.through_id, {}) if plan.inspect is None else plan.inspect(files)
            if found is None:
                return None
            change = Change(found.through_id, files, plan.replaced, plan.dates, found.facts)
            return commit(snapshot, change, moved=lambda: self.progress.moved(name))


def now_ms() -> int:
    return time.time_ns() // 1_000_000
