"""A warm session of one checkout, as a process: brings a new lake up to date each time a line arrives.

Run it with `python -P` and the checkout's sources and benches in PYTHONPATH: the checkout's own bench knows how its
pipeline is started.
"""

import argparse
import asyncio
import json
import shutil
import sys
from pathlib import Path

from pipeline_bench import END_AT, run, took, warm_session
from pipeline_history import write_history


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for the history and the lakes; must exist")
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--memory", required=True)
    chosen = parser.parse_args()
    folder: Path = chosen.folder
    database = folder / "history.db"
    asyncio.run(write_history(database, events=chosen.events, seed=1, end_at=END_AT))
    with warm_session(folder, chosen.memory) as spark:
        print("ready", flush=True)
        for _ in sys.stdin:
            shutil.rmtree(folder / "lake", ignore_errors=True)
            summary = run(spark, database, folder / "lake")
            print(json.dumps({"events_per_s": summary.events / took(summary)}), flush=True)


if __name__ == "__main__":
    main()
