"""`tinyagi pipeline query` and `shell`: SQL and PySpark over the lake as of its manifest."""

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from tinyagi.cli.edge import WrongCall
from tinyagi.cli.options import examples
from tinyagi.cli.pipeline import keeping
from tinyagi.cli.screen import note, print_json, print_table

if TYPE_CHECKING:
    from tinyagi.pipeline.query import Answer

QUERY_EXAMPLES: Final = examples(
    'tinyagi pipeline query "SELECT agent, sum(cost) FROM gold.agent_hourly GROUP BY agent"',
    "tinyagi pipeline query --file examples/questions.sql --format json",
)
SHELL_EXAMPLES: Final = examples("tinyagi pipeline shell")
_BANNER: Final = """A Spark session on the lake, as of its manifest.
  spark            the session; spark.sql("SELECT … FROM silver_runs")
  table("silver.runs")   a table as a DataFrame
  F                pyspark.sql.functions
Ctrl-D leaves."""


def query(
    ctx: typer.Context,
    sql: Annotated[str | None, typer.Argument(help="A SELECT over tables such as silver.runs.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Read statements from a file, - is stdin.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000_000, help="Rows at most.")] = 100,
    form: Annotated[Literal["table", "csv", "json"], typer.Option("--format", help="How rows are printed.")] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Ask the lake in SQL. It is read only, and sees every table as the last finished run left it."""
    if (sql is None) == (file is None):
        raise WrongCall("Give a statement, or a file with --file.")
    statements = [sql] if sql is not None else _statements(file or Path("-"))
    with keeping(ctx) as keeper, keeper.reading() as shop:
        from tinyagi.pipeline.query import ask, make_views  # noqa: PLC0415 - heavy

        make_views(shop)
        for statement in statements:
            _print(ask(shop, statement, limit=limit), "json" if as_json else form)


def shell(ctx: typer.Context) -> None:
    """Open a Python prompt with a Spark session on the lake."""
    import code  # noqa: PLC0415

    with keeping(ctx) as keeper, keeper.reading() as shop:
        from tinyagi.pipeline.query import at_hand  # noqa: PLC0415 - heavy

        code.interact(banner=_BANNER, local=at_hand(shop), exitmsg="")


def _statements(file: Path) -> list[str]:
    """What semicolons divide at the end of a line; lines of comments go."""
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except OSError as error:
        raise WrongCall(f"{file} cannot be read: {error.strerror}.") from error
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [one.strip() for one in "\n".join(lines).split(";\n") if one.strip().strip(";")]


def _print(answer: "Answer", form: str) -> None:
    if form == "json":
        print_json([dict(zip(answer.columns, row, strict=True)) for row in answer.rows])
    elif form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(answer.columns)
        writer.writerows(answer.rows)
    else:
        print_table(answer.columns, answer.rows, empty="No rows.")
    if answer.is_cut:
        note(f"There are more than {len(answer.rows)} rows; --limit shows more.")
