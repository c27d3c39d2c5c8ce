"""The documented recipe for an own Spark session, run as written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.lakes import write_lake
from tests.support.three_runs import THREE_RUNS
from tinyagi.pipeline import register
from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.spark.java import find_java
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.settings.environment import snapshot
from tinyagi.settings.home import Home

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "use-the-lake.md"
RECIPE = re.compile(r"### In a Spark session of your own\n.*?```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    write_lake(home.lake, {**dict.fromkeys(TABLES, ()), "silver.runs": THREE_RUNS})
    return home


def test_the_documented_recipe_works(home: Home, tmp_path: Path) -> None:
    found = RECIPE.search(PAGE.read_text())
    assert found is not None
    java = find_java(snapshot(), tmp_path / "java")
    environment = {**os.environ, "TINYAGI_HOME": str(home.path), "JAVA_HOME": str(java.home)}

    done = subprocess.run(
        [sys.executable, "-c", found[1]], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    counted, paid = done.stdout.split("\n\n")[:2]
    assert sorted(re.findall(r"\| *(\w+)\| *\w+\| *(\d+)\|", counted)) == [("coder", "2"), ("tester", "1")]
    assert re.findall(r"\| *(\w+)\| *([\d.]+)\|", paid) == [("coder", "1.0"), ("tester", "0.5")]


def test_a_session_has_a_view_of_every_table_and_the_event_source(spark: SparkSession, home: Home) -> None:
    register(spark, home=home)

    try:
        views = {view.name for view in spark.catalog.listTables()}
        assert views >= {name.replace(".", "_") for name in TABLES}
        assert spark.table("silver_runs").count() == 3
        assert "payload" in spark.read.format("tinyagi_events").option("db", str(home.database)).load().columns
    finally:
        for view in spark.catalog.listTables():
            spark.catalog.dropTempView(view.name)


def test_a_missing_lake_is_reported_with_the_remedy(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LakeBroken, match="Run `tinyagi pipeline run`"):
        register(spark, home=Home(tmp_path / "empty"))


def test_the_package_loads_no_spark() -> None:
    code = (
        "import sys; from tinyagi.pipeline import register; print('pyspark' in sys.modules, 'pyarrow' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "False"]
