"""The prompt on Spark, and one's own Spark session: table names, views, short errors."""

import logging
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tests.cli.conftest import Shell
from tests.support.lakes import write_lake
from tests.support.three_runs import THREE_RUNS
from tinyagi.lake_service import LakeService
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.pipeline.spark.shell import make_views, replace_table_names, shell_names, without_context_logs
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.settings.home import Home


class Listener(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a lake of three runs."""
    home = Home(tmp_path_factory.mktemp("home"))
    home.database.touch()
    write_lake(home.lake, {**dict.fromkeys(TABLES, ()), "silver.runs": THREE_RUNS})
    return home


@pytest.fixture(scope="module")
def session(spark: SparkSession, home: Home) -> Iterator[LakeSession]:
    session = LakeSession(spark, LakeService(home).lake, Progress(), is_pinned=True)
    make_views(session)
    yield session
    for view in spark.catalog.listTables():
        spark.catalog.dropTempView(view.name)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM silver.runs", "SELECT * FROM silver_runs"),
        ("SELECT silver.runs.agent FROM Silver . Runs", "SELECT silver_runs.agent FROM silver_runs"),
        ("SELECT r.agent FROM gold.agent_hourly r", "SELECT r.agent FROM gold_agent_hourly r"),
        ("SELECT 'silver.runs', \"silver.runs\", `silver.runs`", None),
        ("SELECT 'it''s silver.runs' -- from silver.runs\n/* silver.runs\nsilver.runs */", None),
        (r"SELECT 'a\'silver.runs'", None),
        ("SELECT * FROM silver.nothing, my_silver.runs, silver.runs_too", None),
    ],
)
def test_only_table_names_are_replaced(sql: str, expected: str | None) -> None:
    assert replace_table_names(sql) == (expected or sql)


def test_the_shell_accepts_the_table_names_of_a_query(session: LakeSession) -> None:
    names: dict[str, Any] = shell_names(session)

    assert names["spark"].sql("SELECT count(*) FROM silver.runs").collect()[0][0] == 3
    assert names["spark"].sql("SELECT count(*) FROM silver.runs WHERE agent = :a", {"a": "coder"}).first()[0] == 2
    assert names["spark"].table("silver.runs").count() == names["table"]("silver.runs").count() == 3
    assert names["spark"].sql("SELECT count(*) FROM silver_runs").collect()[0][0] == 3


def test_a_wrong_table_in_the_shell_is_reported_without_a_traceback(
    session: LakeSession, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The shell uses the session of the tests instead of a new one.
    monkeypatch.setattr(LakeService, "reading", lambda keeper: nullcontext(session))
    lines = ("table('silver.nothing')", "spark.sql('SELECT nothing FROM silver.runs')", "1 / 0", "print(6 * 7)")

    result = Shell(home)("pipeline", "shell", stdin="".join(f"{line}\n" for line in lines))

    assert "42" in result.stdout
    assert "`tinyagi pipeline tables` lists the tables." in result.stderr
    assert "[UNRESOLVED_COLUMN" in result.stderr
    assert result.stderr.count("Traceback") == 1
    assert "ZeroDivisionError" in result.stderr
    assert "AnalysisException" not in result.stderr


def test_pyspark_logs_no_errors_while_the_shell_reports_them(session: LakeSession) -> None:
    listener = Listener()
    loggers = [PySparkLogger.getLogger(f"{name}QueryContextLogger") for name in ("SQL", "DataFrame")]
    for logger in loggers:
        logger.addHandler(listener)

    try:
        with without_context_logs(), pytest.raises(Exception, match="nothing"):
            session.spark.sql("SELECT nothing FROM silver_runs").collect()
    finally:
        for logger in loggers:
            logger.removeHandler(listener)

    assert listener.heard == []
    assert not any(logger.disabled for logger in loggers)
