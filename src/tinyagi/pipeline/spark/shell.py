"""A Python prompt on a Spark session of the lake: a view of every table, table names as in `query`, short errors."""

import re
import sys
from code import InteractiveConsole
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession, functions

from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.pipeline.tables.catalog import TABLES

_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*")
# Strings, quoted names and comments match first, so that nothing inside them is taken for a table.
_TOKENS: Final = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|\b([a-z]+)\s*\.\s*([a-z_]+)\b",
    re.DOTALL | re.IGNORECASE,
)


def make_views(session: LakeSession) -> None:
    """Create a temporary view of every table: `silver.runs` becomes `silver_runs`."""
    for name in TABLES:
        session.read(session.open(name)).createOrReplaceTempView(view_of(name))


class QuerySession(SparkSession):
    """A session that accepts table names such as `silver.runs`: Spark's temporary views have no schema."""

    def sql(self, sqlQuery: str, *arguments: Any, **more: Any) -> DataFrame:  # noqa: N803 - named by PySpark
        return super().sql(replace_table_names(sqlQuery), *arguments, **more)

    def table(self, tableName: str) -> DataFrame:  # noqa: N803 - named by PySpark
        return super().table(replace_table_names(tableName))


def shell_names(session: LakeSession) -> dict[str, object]:
    """Create all views; return the initial names of a prompt."""
    make_views(session)
    spark = QuerySession(session.spark.sparkContext, session.spark._jsparkSession)  # noqa: SLF001 - the same session
    return {"spark": spark, "table": spark.table, "F": functions}


def view_of(name: str) -> str:
    return name.replace(".", "_")


def replace_table_names(sql: str) -> str:
    """Replace table names in a statement by the names of their views."""

    def replaced(found: re.Match[str]) -> str:
        name = f"{found[1]}.{found[2]}".lower() if found[1] else ""
        return view_of(name) if name in TABLES else found[0]

    return _TOKENS.sub(replaced, sql)


@contextmanager
def without_context_logs() -> Iterator[None]:
    """Keep PySpark from logging the errors that it raises as JSON with a Java stack."""
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False


def in_short(error: PySparkException) -> str:
    """The first line of the error, without Spark's plans and stacks."""
    lines = [line for line in (error.getMessage() or str(error)).splitlines() if line.strip()]
    reason = _STATE.sub("", lines[0]) if lines else type(error).__name__
    hint = " `tinyagi pipeline tables` lists the tables."
    return reason + (hint if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND" else "")


class Prompt(InteractiveConsole):
    def showtraceback(self) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, AnalysisException):
            self.write(f"{in_short(error)}\n")
        else:
            super().showtraceback()


def interact(session: LakeSession, banner: str) -> None:
    """Read and run lines until the end of stdin."""
    with suppress(ImportError):
        # The import enables line editing and history.
        import readline  # noqa: F401, PLC0415
    with without_context_logs():
        Prompt(shell_names(session)).interact(banner, exitmsg="")
