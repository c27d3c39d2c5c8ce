"""SQL over the lake: answers as of the manifest, in UTC, without Spark; short errors; printed rows."""

import csv
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.cli.conftest import Shell
from tests.support.lakes import write_lake, write_old_lake
from tests.support.three_runs import THREE_RUNS
from tinyagi.domain.errors import InvalidInput, NotFound
from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manage.query import LakeQuery
from tinyagi.pipeline.manifest import LakeManifest, Pin, write_manifest
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.model import DATE
from tinyagi.settings.home import Home

SLOW_QUERY = """
import signal, sys
from pathlib import Path
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.manage.query import LakeQuery

# A child of a worker of pytest-xdist begins with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
with LakeQuery(Lake(Path(sys.argv[1]))) as lake:
    try:
        print("ready", flush=True)
        lake.run("SELECT sum(a.range * b.range) FROM range(10_000_000) a, range(1_000_000) b", limit=1)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("interrupted", flush=True)
    print(lake.run("SELECT count(*) FROM silver.runs", limit=1).rows[0][0])
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a lake of three runs."""
    home = Home(tmp_path_factory.mktemp("home"))
    write_lake(home.lake, {**dict.fromkeys(TABLES, ()), "silver.runs": THREE_RUNS})
    return home


@pytest.fixture(scope="module")
def lake(home: Home) -> Iterator[LakeQuery]:
    with LakeQuery(Lake(home.lake)) as lake:
        yield lake


def test_a_result_has_the_first_rows_and_a_flag_for_more(lake: LakeQuery) -> None:
    sql = "SELECT claim_id FROM silver.runs ORDER BY claim_id;"

    assert lake.run(sql, limit=2).rows == (("c0",), ("c1",))
    assert lake.run(sql, limit=2).is_cut
    assert not lake.run(sql, limit=3).is_cut


def test_columns_can_share_a_name_and_an_empty_result_has_columns(lake: LakeQuery) -> None:
    found = lake.run("SELECT 1 AS a, 2 AS a", limit=1)

    assert (found.columns, found.rows) == (("a", "a"), ((1, 2),))
    assert lake.run("SELECT agent FROM silver.messages", limit=1).columns == ("agent",)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_its_declared_columns(home: Home, name: str) -> None:
    with LakeQuery(Lake(home.lake)) as lake:
        found = lake.run(f"SELECT * FROM {name}", limit=1)  # noqa: S608

    assert found.columns == tuple(column.name for column in TABLES[name].all_columns)


def test_a_table_is_read_as_the_manifest_pins_it(tmp_path: Path) -> None:
    lake = write_lake(tmp_path, {"silver.runs": THREE_RUNS})
    manifest = lake.manifest()
    assert manifest is not None
    write_lake(tmp_path, {"silver.runs": THREE_RUNS[:1]})
    with LakeQuery(lake) as newer:
        write_manifest(lake.manifest_file, manifest)
        with LakeQuery(lake) as older:
            counted = [one.run("SELECT count(*) FROM silver.runs", limit=1).rows for one in (older, newer)]

    # A run that ends in between changes no query that has begun.
    assert counted == [((3,),), ((1,),)]


def older_runs(folder: Path, **columns: pa.Array) -> Lake:
    """A lake whose silver.runs has these columns only."""
    lake = write_lake(folder, {"silver.runs": ()})
    path = lake.path("silver.runs")
    rows = pa.table({**columns, DATE: pa.array([date(2026, 3, 1)])})
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", partition_by=[DATE])
    write_manifest(lake.manifest_file, LakeManifest(1, 1, 0, {"silver.runs": Pin(DeltaTable(path).version(), 1)}))
    return lake


def test_a_column_that_an_older_file_lacks_is_null(tmp_path: Path) -> None:
    with LakeQuery(older_runs(tmp_path, claim_id=pa.array(["c9"]))) as query:
        assert query.run("SELECT claim_id, cost FROM silver.runs", limit=9).rows == (("c9", None),)


def test_milliseconds_of_an_older_lake_are_instants(tmp_path: Path) -> None:
    with LakeQuery(write_old_lake(tmp_path, {"silver.runs": [{"claim_id": "c1", "started_at": 1_500}]})) as query:
        ((found,),) = query.run("SELECT started_at FROM silver.runs", limit=9).rows

    assert found == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)


def test_a_query_reads_only_the_files_of_its_days(lake: LakeQuery) -> None:
    (plan,) = lake.run("EXPLAIN SELECT agent FROM silver.runs WHERE date > DATE '2026-03-01'", limit=9).rows

    assert "Projections: agent" in plan[1]
    assert "Filters: " in plan[1]


@pytest.mark.parametrize(
    "sql",
    [
        "WITH a AS (SELECT agent FROM silver.runs), b AS (SELECT * FROM a) SELECT * FROM b JOIN a USING (agent)",
        "SELECT * FROM range(3)",
        "SELECT agent, unnest(ids) AS id FROM silver.runs",
        "SELECT agent, row_number() OVER (PARTITION BY agent ORDER BY claim_id) FROM silver.runs",
        "SELECT * FROM (SELECT agent, cost FROM silver.runs) PIVOT (sum(cost) FOR agent IN ('coder', 'tester'))",
        "PIVOT silver.runs ON agent USING sum(cost) GROUP BY attempt",
        "SELECT list_filter(ids, lambda i: i >= 0) FROM silver.runs WHERE cost = (SELECT max(cost) FROM silver.runs)",
        "SELECT agent FROM silver.runs UNION SELECT agent FROM gold.agent_hourly",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT * FROM n",
        'FROM "Silver" . /* the runs */ RUNS',
        "FROM query_table('silver.' || 'runs')",
        "VALUES (1)",
        "SHOW ALL TABLES",
        "DESCRIBE silver.runs",
        "SUMMARIZE silver.runs",
        "EXPLAIN SELECT agent FROM silver.runs",
        "EXPLAIN (ANALYZE) SELECT agent FROM silver.runs",
    ],
)
def test_queries_are_answered(home: Home, sql: str) -> None:
    with LakeQuery(Lake(home.lake)) as lake:
        assert lake.run(sql, limit=10).rows


def test_the_catalog_has_every_table(home: Home) -> None:
    sql = "SELECT table_schema || '.' || table_name FROM information_schema.tables, silver.runs WHERE attempt = 1"
    with LakeQuery(Lake(home.lake)) as lake:
        assert {name for (name,) in lake.run(sql, limit=1000).rows} >= set(TABLES)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kathmandu"])
def test_instants_are_in_utc_in_any_time_zone(home: Home, monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    sql = "SELECT to_timestamp(0), epoch_ms(0), hour(to_timestamp(0)), to_timestamp(0)::VARCHAR"
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        with LakeQuery(Lake(home.lake)) as lake:
            ((zoned, plain, hour, text),) = lake.run(sql, limit=1).rows
    time.tzset()

    assert zoned == datetime(1970, 1, 1, tzinfo=UTC)
    assert str(zoned) == "1970-01-01 00:00:00+00:00"
    assert (plain, hour, text) == (datetime(1970, 1, 1), 0, "1970-01-01 00:00:00+00")  # noqa: DTZ001 - has no zone


def test_values_without_an_equal_in_python_are_shown_as_text(lake: LakeQuery) -> None:
    values = "INTERVAL 90 MINUTES, 'a\\xFF'::BLOB, 1 / 0, '101'::BIT, TIMETZ '10:00:00+01'"
    sql = f"SELECT sum(attempt), {values} FROM silver.runs"  # noqa: S608

    assert lake.run(sql, limit=1).rows == ((3, "01:30:00", "a\\xFF", None, "101", "10:00:00+01"),)


@pytest.mark.parametrize(
    ("sql", "expected_text"),
    [
        ("SELEC 1", 'DuckDB does not understand the query: syntax error at or near "SELEC"'),
        ("SELECT nothing FROM silver.runs", 'column "nothing" not found in FROM clause! Candidate bindings: '),
        (
            "SELECT * FROM silver.run",
            'does not exist! Did you mean "runs"? `tinyagi pipeline tables` lists the tables.',
        ),
        ("SELECT * FROM nothing", "`tinyagi pipeline tables` lists the tables."),
        ("SELECT agnt FROM gold.agent_hourly", '"agent"'),
        ("SELECT 1; SELECT 2", "Give one statement at a time; a file with several is read with --file."),
        ("", "The statement is empty. Give a SELECT over tables such as silver.runs."),
        ("-- nothing", "The statement is empty."),
        ("SELECT CAST(agent AS INT) FROM silver.runs", "The query failed: Could not convert string 'coder' to INT32"),
        ("SELECT sum(agent) FROM silver.runs", "No function matches the given name and argument types 'sum(VARCHAR)'."),
        ("SELECT * FROM silver.runs WHERE agent = ?", "Values were not provided for the following parameters: 1"),
        ("SELECT 'infinity'::TIMESTAMPTZ", "Cast it to VARCHAR."),
        ("SELECT repeat('x', 20_000_000_000)", "The query failed: "),
    ],
)
def test_an_invalid_query_is_reported_in_one_line(lake: LakeQuery, sql: str, expected_text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        lake.run(sql, limit=1)

    assert expected_text in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert lake.run("SELECT count(*) FROM silver.runs", limit=1).rows == ((3,),)


def test_a_missing_lake_or_table_is_reported_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(LakeBroken, match="Run `tinyagi pipeline run`"):
        LakeQuery(Lake(tmp_path))
    with LakeQuery(write_lake(tmp_path, {"silver.runs": THREE_RUNS})) as lake:
        with pytest.raises(NotFound, match=r"no gold\.alerts yet. Run `tinyagi pipeline run`"):
            lake.run("SELECT * FROM gold.alerts", limit=1)
        assert lake.run("SHOW ALL TABLES", limit=9).rows


def test_a_deleted_file_is_reported_without_its_path(tmp_path: Path) -> None:
    source = write_lake(tmp_path, {"silver.runs": THREE_RUNS})
    for file in source.path("silver.runs").rglob("*.parquet"):
        file.unlink()

    with LakeQuery(source) as lake, pytest.raises(InvalidInput) as refused:
        lake.run("SELECT agent FROM silver.runs", limit=1)

    assert str(refused.value) == "A file of the lake cannot be read; `vacuum` may have deleted it. Ask again."


def test_ctrl_c_interrupts_a_query(tmp_path: Path) -> None:
    source = write_lake(tmp_path, {"silver.runs": THREE_RUNS})
    command = (sys.executable, "-c", SLOW_QUERY, str(source.folder))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            # Again and again, because the query may not have started at the first time.
            for _ in range(300):
                process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
                    break
        finally:
            process.kill()
        assert process.stdout.read() == "interrupted\n3\n"


def test_a_query_prints_a_table(home: Home) -> None:
    sql = "SELECT agent, count(*) AS n FROM silver.runs GROUP BY agent ORDER BY agent"

    result = Shell(home)("pipeline", "query", sql)

    assert result.exit_code == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines() if line.strip()]
    assert lines[0] == ["agent", "n"]
    assert lines[2:] == [["coder", "2"], ["tester", "1"]]


def test_rows_can_be_printed_as_csv_and_json(home: Home) -> None:
    sql = "SELECT agent, ids, date, to_timestamp(0) AS at FROM silver.runs ORDER BY claim_id"

    as_csv = Shell(home)("pipeline", "query", sql, "--format", "csv", "--limit", "1")
    as_json = Shell(home)("pipeline", "query", sql, "--json", "-n", "1")

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
def test_statements_are_read_from_a_file(home: Home, tmp_path: Path, *, from_stdin: bool) -> None:
    text = "-- How many?\nSELECT count(*) AS n\nFROM silver.runs;\n\n-- Who?\nSELECT ';' AS who;\n"
    file = tmp_path / "questions.sql"
    file.write_text(text)

    result = Shell(home)(
        *("pipeline", "query", "--format", "csv", "--file", "-" if from_stdin else str(file)),
        stdin=text if from_stdin else None,
    )

    assert result.stdout.split() == ["n", "3", "who", ";"]
    assert result.stderr.split() == ["How", "many?", "Who?"]


def test_a_table_is_printed_after_its_question(home: Home) -> None:
    text = "-- How many?\nSELECT count(*) AS n FROM silver.runs;\n"

    result = Shell(home)("pipeline", "query", "--file", "-", stdin=text)

    assert result.stdout.split() == ["How", "many?", "n", "─", "3"]
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("sql", "expected_text"),
    [
        ("SELECT nothing FROM silver.runs", "tinyagi: DuckDB does not understand the query: "),
        ("DROP TABLE silver.runs", "tinyagi: Only queries are allowed: "),
    ],
)
def test_an_invalid_query_at_the_command_line_is_reported_in_one_line(home: Home, sql: str, expected_text: str) -> None:
    result = Shell(home)("pipeline", "query", sql)

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(expected_text)
    assert len(result.stderr.strip().splitlines()) == 1


def test_an_interrupted_command_says_so_in_one_sentence(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LakeQuery, "run", interrupted)

    result = Shell(home)("pipeline", "query", "SELECT 1")

    assert (result.exit_code, result.stderr.strip()) == (130, "The query was interrupted.")


def test_the_command_loads_no_spark_and_no_pandas(home: Home) -> None:
    code = (
        "import sys\nfrom tinyagi.cli.main import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "print(*sorted({'numpy', 'pandas', 'py4j', 'pyspark', 'sqlite3', 'tinyagi.lake_service'} & set(sys.modules)))\n"
    )
    sql = "SELECT count(*) AS n FROM silver.runs"

    done = subprocess.run(
        [sys.executable, "-c", code, "--home", str(home.path), "pipeline", "query", "--format", "csv", sql],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == ["n", "3"]
