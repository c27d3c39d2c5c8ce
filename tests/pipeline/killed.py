"""A process that runs the pipeline and kills itself with SIGKILL at one point."""

import os
import signal
import sys
from pathlib import Path

from tinyagi.pipeline.ingest.log_source import LogSource
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.run import Pipeline
from tinyagi.pipeline.spark.lake_session import open_for_writing
from tinyagi.pipeline.spark.session import SparkSetup
from tinyagi.settings.environment import snapshot


class Killer(Progress):
    """Kills the process when the point is first reached."""

    def __init__(self, point: str, of: str) -> None:
        self._point = (point, of)

    def began(self, stage: str) -> None:
        self._at("began", stage)

    def planned(self, table: str) -> None:
        self._at("planned", table)

    def written(self, table: str) -> None:
        self._at("written", table)

    def committed(self, table: str, rows: int) -> None:
        self._at("committed", table)

    def finishing(self) -> None:
        self._at("finishing", "")

    def _at(self, point: str, of: str) -> None:
        if (point, of) == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, database: str, batch_events: str, point: str, of: str) -> None:
    setup = SparkSetup(snapshot(), "local[2]", "1g")
    with open_for_writing(Lake(Path(folder)), setup, "run", Killer(point, of)) as session:
        Pipeline(session, LogSource({"db": database}), batch_events=int(batch_events)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
