"""Checks that a lake belongs to a log. Needs no Spark: a run without new events ends after this."""

import pyarrow.compute as pc

from tinyagi.pipeline.delta.snapshot import Snapshot
from tinyagi.pipeline.errors import PipelineError
from tinyagi.pipeline.ingest.log_source import LogSource
from tinyagi.pipeline.lake import Lake


def check_origin(lake: Lake, bronze: Snapshot, log: LogSource) -> None:
    """Raise PipelineError if the lake belongs to another log: a database restored from an older copy reuses ids."""
    last = bronze.through_id
    files = bronze.reaching("id", last, last)
    rows = bronze.dataset(files).to_table(["type", "created_at"], filter=pc.field("id") == last)
    if not all(log.has(last, row["type"], row["created_at"]) for row in rows.to_pylist()):
        raise PipelineError(
            f"The lake's last event, {last}, is missing or different in this database: the database was restored"
            " from a copy older than the lake, or the lake belongs to another home. Restore a backup made with"
            f" --lake, or move the lake away (mv '{lake.folder}' '{lake.folder}.newer') and run the pipeline again to"
            " build a new lake. Nothing was written."
        )
