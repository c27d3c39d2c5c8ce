"""Ask the lake from Python: with Arrow, pandas, DuckDB and PySpark, and with Polars if it is there.

A script, and a notebook for editors that know `# %%`:

    python examples/ask_the_lake.py

It reads the lake of TINYAGI_HOME (~/.tinyagi by default); `tinyagi pipeline run` makes one. It changes nothing.
"""
# ruff: noqa: T201 - a notebook shows what it finds

# %% The tables, as the last finished run left them. None of this needs Java.
from contextlib import ExitStack
from importlib.util import find_spec

import duckdb
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that every reader of Spark code knows

from tinyagi.lake_service import LakeService
from tinyagi.pipeline import lake
from tinyagi.settings.home import find_home

home = find_home()
manifest = lake.Lake(home.lake).manifest()
if manifest is None:
    raise SystemExit(f"There is no lake in {home.path} yet. Run `tinyagi pipeline run`.")
print(f"The lake has every event up to {manifest.through_id}, in {len(manifest.tables)} tables.")

# %% Arrow: only these columns and rows are read from the files.
runs = lake.Lake(home.lake).rows(
    "silver.runs", columns=["agent", "model", "run_ms", "cost", "date"], where=pc.field("outcome") == "completed"
)
print(f"{runs.num_rows} runs gave an answer; the longest took {pc.max(runs['run_ms']).as_py() / 1000:.1f} s.")

# %% pandas: what each agent costs, day by day.
frame = runs.to_pandas()
costs = frame.pivot_table(index="date", columns="agent", values="cost", aggfunc="sum", fill_value=0.0)
print("\nUSD per day and agent\n", costs.round(2).to_string())

# %% Polars opens the same table of Delta, lazily. Instants are timestamps in UTC there.
if find_spec("polars") is not None:
    import polars as pl

    busiest = (
        pl.scan_delta(lake.table("gold.agent_hourly"))
        .group_by("agent")
        .agg(pl.col("runs").sum(), pl.col("cost").sum().round(2), pl.col("hour").max().alias("last_hour"))
        .sort("runs", descending=True)
        .head(5)
        .collect()
    )
    print("\nThe busiest agents\n", busiest)

# %% DuckDB: SQL in this process, over Arrow. `tinyagi pipeline query` does the same, with all tables by their names.
with duckdb.connect() as connection:
    connection.register("handoffs", lake.table("silver.handoffs").to_pyarrow_dataset())
    edges = connection.execute(
        "SELECT from_agent, to_agent, count(*) AS handoffs, median(latency_ms) AS ms FROM handoffs"
        " GROUP BY from_agent, to_agent ORDER BY handoffs DESC, from_agent, to_agent LIMIT 5"
    ).fetchall()
print("\nWho hands work to whom (and the median until it is done, ms)")
for edge in edges:
    print("  ", edge)

# %% PySpark: for questions that are too large for one machine's memory. The session takes some seconds to start.
stack = ExitStack()
shop = stack.enter_context(LakeService(home).reading())


def table(name: str) -> DataFrame:
    return shop.read(shop.open(name))


# %% Which conversations waited for a teammate rather than for a model?
waits = (
    table("silver.handoffs")
    .groupBy("conversation_id")
    .agg(F.sum("wait_ms").alias("waited_ms"), F.count("*").alias("handoffs"))
    .join(table("gold.conversations").select("conversation_id", "run_ms", "cost"), "conversation_id")
    .withColumn("waiting", F.round(F.col("waited_ms") / (F.col("waited_ms") + F.col("run_ms")), 2))
    .orderBy(F.desc("waiting"), "conversation_id")
)
print("\nConversations by the share of their time that was waiting for a teammate")
waits.show(5, truncate=False)

# %% Every run is a version of its tables; for a day the one before can still be read, with `as_of`.
for commit in lake.table("gold.agent_hourly").history(3):
    print(commit["version"], commit["operation"])

# %% Done: Spark's Java ends here.
stack.close()
