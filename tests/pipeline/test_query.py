"""SQL over the lake: table names, read-only access, and short errors."""

import csv
import io
import json
import logging
import time
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from tests.cli.conftest import Shell
from tests.support.lakes import write_lake
from tinyagi.domain.errors import InvalidInput
from tinyagi.lake_service import LakeService
from tinyagi.pipeline.manage.query import make_views, replace_table_names, run_query, shell_names
from tinyagi.pipeline.progress import Progress
from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.settings.home import Home

DAY = date(2026, 3, 14)
RUNS = [
    {"claim_id": f"c{number}", "agent": agent, "attempt": 1, "cost": 0.5, "ids": [number], "date": DAY}
    for number, agent in enumerate(("coder", "coder", "tester"))
]
READ_ONLY = "Only queries are allowed: SELECT, WITH, SHOW and DESCRIBE. The lake was not changed."


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
    write_lake(home.lake, {**dict.fromkeys(TABLES, ()), "silver.runs": RUNS})
    return home


@pytest.fixture(scope="module")
def session(spark: SparkSession, home: Home) -> Iterator[LakeSession]:
    session = LakeSession(spark, LakeService(home).lake, Progress(), is_pinned=True)
    make_views(session)
    yield session
    for view in spark.catalog.listTables():
        spark.catalog.dropTempView(view.name)


@pytest.fixture
def shell(session: LakeSession, home: Home, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Commands use the session of the tests instead of a new one."""
    monkeypatch.setattr(LakeService, "reading", lambda keeper: nullcontext(session))
    return Shell(home)


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


def test_a_result_has_the_first_rows_and_a_flag_for_more(session: LakeSession) -> None:
    sql = "SELECT claim_id FROM silver.runs ORDER BY claim_id;"

    assert run_query(session, sql, limit=2).rows == (("c0",), ("c1",))
    assert run_query(session, sql, limit=2).is_cut
    assert not run_query(session, sql, limit=3).is_cut


def test_columns_can_share_a_name_and_an_empty_result_has_columns(session: LakeSession) -> None:
    assert run_query(session, "SELECT 1 AS a, 2 AS a", limit=1).rows == ((1, 2),)
    assert run_query(session, "SELECT agent FROM silver.messages", limit=1).columns == ("agent",)


def test_times_are_in_utc_in_any_time_zone(session: LakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        ((found,),) = run_query(session, "SELECT timestamp_millis(0)", limit=1).rows
    time.tzset()

    assert found == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO silver.runs SELECT * FROM silver.runs",
        "INSERT OVERWRITE DIRECTORY '{folder}' USING parquet SELECT 1",
        "WITH x AS (SELECT 1) INSERT OVERWRITE DIRECTORY '{folder}' USING parquet SELECT * FROM x",
        "FROM silver.runs INSERT INTO a SELECT * INSERT INTO b SELECT *",
        "DROP VIEW silver_runs",
        "DROP TABLE silver.runs",
        "DELETE FROM silver.runs",
        "CREATE TABLE x AS SELECT 1",
        "EXECUTE IMMEDIATE 'DROP VIEW silver_runs'",
        "BEGIN DROP VIEW silver_runs; END",
        "SET spark.sql.session.timeZone = Asia/Tokyo",
        "SELECT 1 WHERE 1 IN (SELECT TRANSFORM(a) USING 'touch {folder}' AS (b) FROM VALUES (1) AS t(a))",
        "WITH x AS (SELECT TRANSFORM(a) USING 'touch {folder}' AS (b) FROM VALUES (1) AS t(a)) SELECT * FROM x",
    ],
)
def test_a_query_that_writes_or_runs_a_program_is_refused(session: LakeSession, tmp_path: Path, sql: str) -> None:
    folder = tmp_path / "written"

    with pytest.raises(InvalidInput) as refused:
        run_query(session, sql.format(folder=folder), limit=1)

    assert str(refused.value) == READ_ONLY
    assert not folder.exists()
    assert run_query(session, "SELECT count(*) FROM silver.runs", limit=1).rows == ((3,),)


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT reflect('java.lang.System', 'getProperty', 'user.home')", "reflect"),
        ("SELECT JAVA_METHOD('java.io.File', 'createTempFile', 'a', 'b')", "java_method"),
        (
            "SELECT agent FROM silver.runs WHERE try_reflect('java.lang.System', 'getenv', 'HOME') IS NULL",
            "try_reflect",
        ),
        ("SELECT (SELECT system.builtin.reflect('java.util.UUID', 'randomUUID'))", "reflect"),
        ("WITH x AS (SELECT upper(`reflect`('java.util.UUID', 'randomUUID')) AS a) SELECT * FROM x", "reflect"),
        (
            "SELECT 1 WHERE EXISTS (SELECT 1 FROM silver.runs WHERE reflect('java.util.UUID', 'randomUUID') = agent)",
            "reflect",
        ),
    ],
)
def test_a_function_that_runs_java_code_is_refused(session: LakeSession, sql: str, name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        run_query(session, sql, limit=1)

    assert str(refused.value) == (
        f"A query may not call {name}, which runs Java code. `tinyagi pipeline shell` has no such limit."
    )


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "text", "binaryFile", "orc"])
def test_a_file_cannot_be_read_by_its_path(session: LakeSession, home: Home, tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"a": 1}')
    own = home.lake / "silver" / "runs"

    for path in (secret, own):
        with pytest.raises(InvalidInput, match=r"cannot be found.*lists the tables"):
            run_query(session, f"SELECT * FROM {kind}.`{path}`", limit=1)  # noqa: S608
        with pytest.raises(InvalidInput, match="cannot be found"):
            run_query(session, f"DESCRIBE {kind}.`{path}`", limit=1)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TEMPORARY FUNCTION f AS 'x.Y'",
        "CREATE TEMPORARY VIEW v USING csv OPTIONS (path '/etc/hostname')",
        "CREATE FUNCTION f(x INT) RETURNS INT RETURN x",
        "ADD FILE '/etc/hostname'",
        "CACHE TABLE silver_runs",
        "USE other",
    ],
)
def test_a_query_that_changes_the_session_is_refused(session: LakeSession, sql: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        run_query(session, sql, limit=1)

    assert str(refused.value) == READ_ONLY


@pytest.mark.parametrize(
    "sql",
    [
        "WITH a AS (SELECT agent FROM silver.runs), b AS (SELECT * FROM a) SELECT * FROM b JOIN a USING (agent)",
        "SELECT * FROM range(3)",
        "SELECT * FROM silver.runs r, LATERAL explode(r.ids) AS t(id)",
        "SELECT agent, row_number() OVER (PARTITION BY agent ORDER BY claim_id) FROM silver.runs",
        "SELECT * FROM (SELECT agent, cost FROM silver.runs) PIVOT (sum(cost) FOR agent IN ('coder', 'tester'))",
        "SELECT filter(ids, i -> i >= 0) FROM silver.runs WHERE cost = (SELECT max(cost) FROM silver.runs)",
        "SELECT 'reflect(x)' AS reflect",
        "SELECT agent FROM silver.runs UNION SELECT agent FROM gold.agent_hourly",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n",
    ],
)
def test_ordinary_queries_are_answered(session: LakeSession, sql: str) -> None:
    assert run_query(session, sql, limit=10).rows


@pytest.mark.parametrize("sql", ["SHOW TABLES", "DESCRIBE silver.runs", "VALUES (1)", "FROM silver.runs |> LIMIT 1"])
def test_every_read_only_statement_is_answered(session: LakeSession, sql: str) -> None:
    assert run_query(session, sql, limit=1).rows


@pytest.mark.parametrize(
    ("sql", "expected_text"),
    [
        ("SELEC 1", "Spark does not understand the query: [PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'."),
        ("SELECT nothing FROM silver.runs", "with name `nothing` cannot be resolved. Did you mean"),
        ("SELECT * FROM silver.nothing", "cannot be found. Verify the spelling and correctness of the schema"),
        ("SELECT * FROM nothing", "`tinyagi pipeline tables` lists the tables."),
        ("SELECT 1; SELECT 2", "extra input 'SELECT'"),
        ("", "unexpected empty statement"),
        ("SELECT 1 / 0", "The query failed: [DIVIDE_BY_ZERO] Division by zero."),
        ("SELECT sum(agent) FROM silver.runs", 'cannot be cast to "DOUBLE"'),
    ],
)
def test_an_invalid_query_is_reported_in_one_line_and_not_logged(
    session: LakeSession, sql: str, expected_text: str
) -> None:
    listener = Listener()
    loggers = [PySparkLogger.getLogger(f"{name}QueryContextLogger") for name in ("SQL", "DataFrame")]
    for logger in loggers:
        logger.addHandler(listener)

    try:
        with pytest.raises(InvalidInput) as refused:
            run_query(session, sql, limit=1)
    finally:
        for logger in loggers:
            logger.removeHandler(listener)

    assert expected_text in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert "SQLSTATE" not in str(refused.value)
    assert listener.heard == []
    assert not any(logger.disabled for logger in loggers)


def test_a_query_prints_a_table(shell: Shell) -> None:
    result = shell("pipeline", "query", "SELECT agent, count(*) AS n FROM silver.runs GROUP BY agent ORDER BY agent")

    assert result.exit_code == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert lines[0] == ["agent", "n"]
    assert lines[2:] == [["coder", "2"], ["tester", "1"]]


def test_rows_can_be_printed_as_csv_and_json(shell: Shell) -> None:
    sql = "SELECT agent, ids, date, timestamp_millis(0) AS at FROM silver.runs ORDER BY claim_id"

    as_csv = shell("pipeline", "query", sql, "--format", "csv", "--limit", "1")
    as_json = shell("pipeline", "query", sql, "--json", "-n", "1")

    header, row = csv.reader(io.StringIO(as_csv.stdout))
    assert (header, row) == (
        ["agent", "ids", "date", "at"],
        ["coder", "[0]", "2026-03-14", "1970-01-01 00:00:00+00:00"],
    )
    assert json.loads(as_json.stdout) == [
        {"agent": "coder", "ids": [0], "date": "2026-03-14", "at": "1970-01-01T00:00:00Z"}
    ]
    for result in (as_csv, as_json):
        assert result.stderr.strip() == "There are more than 1 rows; --limit shows more."


@pytest.mark.parametrize("from_stdin", [False, True])
def test_statements_are_read_from_a_file(shell: Shell, tmp_path: Path, *, from_stdin: bool) -> None:
    text = "-- How many?\nSELECT count(*) AS n\nFROM silver.runs;\n\n-- Who?\nSELECT ';' AS who;\n"
    file = tmp_path / "questions.sql"
    file.write_text(text)

    result = shell(
        *("pipeline", "query", "--format", "csv", "--file", "-" if from_stdin else str(file)),
        stdin=text if from_stdin else None,
    )

    assert result.stdout.split() == ["n", "3", "who", ";"]
    assert result.stderr.split() == ["How", "many?", "Who?"]


def test_a_table_is_printed_after_its_question(shell: Shell) -> None:
    result = shell("pipeline", "query", "--file", "-", stdin="-- How many?\nSELECT count(*) AS n FROM silver.runs;\n")

    assert result.stdout.split() == ["How", "many?", "n", "─", "3"]
    assert result.stderr == ""


def test_the_shell_accepts_the_table_names_of_a_query(session: LakeSession) -> None:
    names: dict[str, Any] = shell_names(session)

    assert names["spark"].sql("SELECT count(*) FROM silver.runs").collect()[0][0] == 3
    assert names["spark"].sql("SELECT count(*) FROM silver.runs WHERE agent = :a", {"a": "coder"}).first()[0] == 2
    assert names["spark"].table("silver.runs").count() == names["table"]("silver.runs").count() == 3
    assert names["spark"].sql("SELECT count(*) FROM silver_runs").collect()[0][0] == 3


def test_a_wrong_table_in_the_shell_is_reported_without_a_traceback(shell: Shell) -> None:
    lines = ("table('silver.nothing')", "spark.sql('SELECT nothing FROM silver.runs')", "1 / 0", "print(6 * 7)")

    result = shell("pipeline", "shell", stdin="".join(f"{line}\n" for line in lines))

    assert "42" in result.stdout
    assert "`tinyagi pipeline tables` lists the tables." in result.stderr
    assert "[UNRESOLVED_COLUMN" in result.stderr
    assert result.stderr.count("Traceback") == 1
    assert "ZeroDivisionError" in result.stderr
    assert "AnalysisException" not in result.stderr


def test_an_invalid_query_at_the_command_line_is_reported_in_one_line(shell: Shell) -> None:
    result = shell("pipeline", "query", "SELECT nothing FROM silver.runs")

    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("tinyagi: Spark does not understand the query: ")
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_change_at_the_command_line_is_refused(shell: Shell) -> None:
    result = shell("pipeline", "query", "DROP TABLE silver.runs")

    assert (result.exit_code, result.stderr.strip()) == (1, f"tinyagi: {READ_ONLY}")
