"""`tinyagi pipeline query` and `shell`: SQL and Python on the tables of the lake."""

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import typer

from tinyagi.cli.context import installation
from tinyagi.cli.error_boundary import INTERRUPTED
from tinyagi.cli.options import examples
from tinyagi.cli.pipeline import open_lake, reading, requires_pipeline_extra
from tinyagi.cli.terminal import WrongCall, note, print_json, print_table, readable, say

if TYPE_CHECKING:
    from tinyagi.pipeline.manage.query import QueryResult

QUERY_EXAMPLES: Final = examples(
    'tinyagi pipeline query "SELECT agent, sum(cost) FROM gold.agent_hourly GROUP BY agent"',
    "tinyagi pipeline query --file examples/questions.sql",
    'tinyagi pipeline query --format csv --limit 100000 "SELECT * FROM silver.runs" > runs.csv',
)
SHELL_EXAMPLES: Final = examples("tinyagi pipeline shell")
_BANNER: Final = """A Spark session on the lake, as the last finished run left it.
  spark                  the session: spark.sql("SELECT … FROM silver.runs")
  table("silver.runs")   a table as a DataFrame
  F                      pyspark.sql.functions
Ctrl-D leaves."""
# Characters that start a formula in a spreadsheet, also in full width.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class Statement(NamedTuple):
    """One SQL statement of a file."""

    sql: str
    question: str = ""
    """The comment directly above it."""


def query(
    ctx: typer.Context,
    sql: Annotated[str | None, typer.Argument(help="A SELECT over tables such as silver.runs.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read statements from a file, - is stdin.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000_000, help="Rows at most.")] = 100,
    form: Annotated[Literal["table", "csv", "json"], typer.Option("--format", help="Output format.")] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    is_safe: Annotated[
        bool,
        typer.Option(
            "--safe-csv/--raw-csv",
            help="In CSV, remove control characters and mark formulas as text; or print every text as it is.",
        ),
    ] = True,
) -> None:
    """Query the lake with SQL. Read-only; sees every table as of the last finished run."""
    if (sql is None) == (file is None):
        raise WrongCall("Give a statement, or a file with --file.")
    statements = [Statement(sql)] if sql is not None else statements_in(file or Path("-"))
    with requires_pipeline_extra(), _without_pandas_and_numpy():
        from tinyagi.pipeline.lake import Lake
        from tinyagi.pipeline.manage.query import LakeQuery
    try:
        with LakeQuery(Lake(installation(ctx).home.lake)) as lake:
            for one in statements:
                _print(one.question, lake.run(one.sql, limit=limit), "json" if as_json else form, is_safe=is_safe)
    except KeyboardInterrupt:
        note("The query was interrupted.")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _without_pandas_and_numpy() -> Iterator[None]:
    """Keep Arrow from importing pandas and NumPy: it needs neither here, and they load longer than a query takes.

    Arrow looks for them only once, so a process that has loaded Arrow already is left alone.
    """
    if "pyarrow" in sys.modules:
        yield
        return
    sys.meta_path.insert(0, _HidesPandasAndNumpy)
    try:
        yield
    finally:
        sys.meta_path.remove(_HidesPandasAndNumpy)


class _HidesPandasAndNumpy:
    """A finder of modules that finds neither."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        if name in {"numpy", "pandas"}:
            raise ModuleNotFoundError(f"This command needs no {name}.", name=name)


def shell(ctx: typer.Context) -> None:
    """Open a Python prompt with a Spark session on the lake. Unlike `query`, it runs whatever you type."""
    with open_lake(ctx) as service, reading(service) as session:
        from tinyagi.pipeline.spark.shell import interact

        interact(session, _BANNER)


def statements_in(file: Path) -> list[Statement]:
    """The statements of a file, each ended by a semicolon at the end of a line; drops unrelated comments."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except OSError as error:
        raise WrongCall(f"{file} cannot be read: {error.strerror}.") from error
    found: list[Statement] = []
    comment: list[str] = []
    lines: list[str] = []
    for line in map(str.rstrip, [*text.splitlines(), ";"]):
        if line.lstrip().startswith("--"):
            if not lines:
                comment.append(line.strip().lstrip("-").strip())
        elif not line and not lines:
            comment = []
        else:
            lines.append(line)
            if line.endswith(";"):
                sql = "\n".join(lines).rstrip().removesuffix(";").strip()
                if sql:
                    found.append(Statement(sql, "\n".join(comment)))
                comment, lines = [], []
    return found


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]], *, is_safe: bool) -> None:
    writer = csv.writer(sys.stdout)
    for row in (columns, *rows):
        writer.writerow([_safe(cell) for cell in row] if is_safe else row)


def _safe(cell: object) -> object:
    """Remove control characters; an apostrophe makes a spreadsheet show a formula instead of running it."""
    if not isinstance(cell, str):
        return cell
    text = readable(cell)
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def _print(question: str, answer: "QueryResult", form: str, *, is_safe: bool) -> None:
    if question:
        # On stderr when a program reads the rows.
        (say if form == "table" else note)(question)
    if form == "json":
        print_json([dict(zip(answer.columns, row, strict=True)) for row in answer.rows])
    elif form == "csv":
        print_csv(answer.columns, answer.rows, is_safe=is_safe)
    else:
        print_table(answer.columns, answer.rows, empty="No rows.")
    if answer.is_cut:
        note(f"There are more than {len(answer.rows)} rows; --limit shows more.")
