"""A query reads tables of the lake and nothing else: no file, no network, no setting, no change."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lakes import write_lake
from tests.support.three_runs import THREE_RUNS
from tinyagi.domain.errors import InvalidInput
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manage.query import READ_ONLY, LakeQuery
from tinyagi.pipeline.tables.catalog import TABLES

NO_FILES = (
    "A query can only read tables of the lake, no files and addresses. `tinyagi pipeline tables` lists the tables."
)
SECRET = "hunter2"


@pytest.fixture
def source(tmp_path: Path) -> Lake:
    return write_lake(tmp_path / "lake", {**dict.fromkeys(TABLES, ()), "silver.runs": THREE_RUNS})


@pytest.fixture
def lake(source: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LakeQuery]:
    """A query in a working directory whose files must neither be shown nor change."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "secret.csv").write_text(f"a\n{SECRET}\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SECRET", SECRET)
    with LakeQuery(source) as lake:
        yield lake
    assert [(file.name, file.read_text()) for file in folder.iterdir()] == [("secret.csv", f"a\n{SECRET}\n")]


def refusal(lake: LakeQuery, sql: str) -> str:
    """The one sentence that refuses the statement; the next query finds the lake as it was."""
    with pytest.raises(InvalidInput) as refused:
        lake.run(sql, limit=1)
    text = str(refused.value)
    assert len(text.splitlines()) == 1
    assert SECRET not in text
    assert lake.run("SELECT count(*) FROM silver.runs", limit=1).rows == ((3,),)
    return text


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO 'out.csv'",
        "COPY silver.runs TO 'out.parquet'",
        "COPY silver.runs FROM 'secret.csv'",
        "EXPORT DATABASE 'out'",
        "IMPORT DATABASE 'out'",
        "ATTACH 'out.db'",
        "ATTACH ':memory:' AS other",
        "DETACH memory",
        "INSTALL httpfs",
        "LOAD httpfs",
        "FORCE INSTALL spatial FROM community",
        "UPDATE EXTENSIONS",
        "SET threads = 1",
        "SET enable_external_access = true",
        "SET SESSION TimeZone = 'Asia/Tokyo'",
        "SET VARIABLE a = 1",
        "RESET threads",
        "PRAGMA threads = 1",
        "PRAGMA enable_profiling",
        "PRAGMA table_info('silver.runs')",
        "USE silver",
        "CREATE TABLE x AS SELECT 1",
        "CREATE TEMP TABLE x AS SELECT 1",
        "CREATE OR REPLACE VIEW silver.runs AS SELECT 1",
        "CREATE MACRO x() AS 1",
        "CREATE SECRET (TYPE s3)",
        "CREATE TABLE x AS PIVOT silver.runs ON agent USING sum(cost) GROUP BY attempt",
        "INSERT INTO silver.runs SELECT * FROM silver.runs",
        "WITH x AS (SELECT 1) INSERT INTO silver.runs SELECT * FROM x",
        "UPDATE silver.runs SET cost = 0",
        "DELETE FROM silver.runs",
        "TRUNCATE silver.runs",
        "DROP VIEW silver.runs",
        "DROP SCHEMA silver CASCADE",
        "ALTER VIEW silver.runs RENAME TO x",
        "COMMENT ON VIEW silver.runs IS 'x'",
        "CALL enable_logging(storage = 'file', storage_path = 'out')",
        "PREPARE x AS SELECT 1",
        "EXECUTE x",
        "BEGIN",
        "COMMIT",
        "CHECKPOINT",
        "VACUUM",
        "EXPLAIN COPY (SELECT 1) TO 'out.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'",
        "EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1",
        "EXPLAIN (ANALYZE, FORMAT json) DROP VIEW silver.runs",
        "/* a comment */ EXPLAIN ANALYZE DROP VIEW silver.runs",
    ],
)
def test_a_statement_that_is_no_query_is_refused(lake: LakeQuery, sql: str) -> None:
    assert refusal(lake, sql) == READ_ONLY


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_csv('secret.csv')",
        "FROM read_csv_auto('*.csv')",
        "FROM read_text('secret.csv')",
        "FROM read_text(['secret.csv'])",
        "FROM read_text('file:///etc/passwd')",
        "FROM read_blob('/etc/passwd')",
        "FROM read_json('secret.csv')",
        "FROM read_parquet('{lake}/silver/runs/**/*.parquet')",
        "FROM parquet_scan('{lake}/silver/runs/**/*.parquet')",
        "FROM parquet_metadata('{lake}/silver/runs/**/*.parquet')",
        "FROM glob('*')",
        "FROM sniff_csv('secret.csv')",
        "FROM read_duckdb('secret.csv')",
        "FROM read_csv('https://example.org/a.csv')",
        "FROM read_parquet('s3://bucket/a.parquet')",
        "SELECT (SELECT content FROM read_text('secret.csv'))",
        "WITH x AS (FROM read_text('secret.csv')) FROM silver.runs, x",
        "WITH x AS (COPY (SELECT 1) TO 'out.csv') FROM x",
        "FROM query('FROM read_text(''secret.csv'')')",
        "FROM json_execute_serialized_sql(json_serialize_sql('FROM read_text(''secret.csv'')'))",
        "SUMMARIZE FROM read_text('secret.csv')",
        "EXPLAIN ANALYZE FROM read_text('secret.csv')",
        "FROM 'secret.csv'",
        'FROM "secret.csv"',
        "DESCRIBE 'secret.csv'",
        "FROM query_table('secret.csv')",
        "FROM duckdb_extensions()",
    ],
)
def test_a_file_or_an_address_cannot_be_read_or_written(lake: LakeQuery, source: Lake, sql: str) -> None:
    assert refusal(lake, sql.replace("{lake}", str(source.folder))) == NO_FILES


@pytest.mark.parametrize(
    ("sql", "expected_text"),
    [
        ("FROM query('CREATE TABLE x AS SELECT 1')", "Expected a single SELECT statement"),
        ("FROM query('DROP VIEW silver.runs')", "Expected a single SELECT statement"),
        ("FROM query('SELECT 1; SELECT 2')", "Expected a single SELECT statement"),
        ("SELECT getenv('SECRET')", "does not exist"),
        ("SELECT ST_Point(1, 2)", "does not understand"),
        ("FROM ST_Read('secret.csv')", "does not understand"),
        ("FROM sqlite_scan('secret.csv', 'a')", "does not understand"),
        ("FROM iceberg_scan('secret.csv')", "does not understand"),
        ("FROM enable_logging(storage = 'file', storage_path = 'out')", "the configuration has been locked"),
        ("FROM enable_profiling(save_location = 'out.json')", "the configuration has been locked"),
        ("WITH x AS (INSERT INTO silver.runs SELECT * FROM silver.runs RETURNING *) FROM x", "does not understand"),
        ("WITH x AS (DELETE FROM silver.runs RETURNING *) FROM x", "does not understand"),
        ("FROM arrow_scan(1, 2, 3)", "does not understand"),
        ("FROM pandas_scan(1)", "does not understand"),
        ("FROM python_map_function((SELECT 1))", "does not understand"),
        ("SELECT 1; DROP VIEW silver.runs", "Give one statement at a time"),
        ("DROP VIEW silver.runs; SELECT 1", "Give one statement at a time"),
    ],
)
def test_a_function_cannot_do_more_than_a_query(lake: LakeQuery, sql: str, expected_text: str) -> None:
    assert expected_text in refusal(lake, sql)


def test_a_variable_of_the_program_is_no_table(lake: LakeQuery) -> None:
    secret = io.StringIO(SECRET)

    assert "does not exist" in refusal(lake, "FROM secret")
    assert "does not exist" in refusal(lake, "FROM SECRET")
    assert secret.getvalue() == SECRET


def test_a_query_that_needs_too_much_memory_writes_no_file(lake: LakeQuery) -> None:
    assert lake.run("SELECT current_setting('temp_directory')", limit=1).rows == (("",),)


def test_no_query_changes_a_file_of_the_lake(lake: LakeQuery, source: Lake) -> None:
    before = {path: path.stat().st_mtime_ns for path in source.folder.rglob("*")}

    lake.run("SUMMARIZE silver.runs", limit=10)
    lake.run("EXPLAIN ANALYZE SELECT * FROM silver.runs", limit=10)

    assert {path: path.stat().st_mtime_ns for path in source.folder.rglob("*")} == before
