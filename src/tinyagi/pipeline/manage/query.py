"""Read-only SQL over the lake: every table under its own name, as of the manifest."""

import re
import sys
from code import InteractiveConsole
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession, functions

from tinyagi.domain.errors import InvalidInput
from tinyagi.pipeline.spark.lake_session import LakeSession
from tinyagi.pipeline.tables.catalog import TABLES

JavaPlan: TypeAlias = Any
"""A plan or expression of Spark, as a Java object."""

_COMMAND: Final = "org.apache.spark.sql.catalyst.plans.logical.Command"
# Plans that write, run a program or hide another statement, though Spark's parser does not class them as commands.
_WRITES_OR_EXECUTES: Final = ("InsertInto", "UnresolvedExecuteImmediate", "ScriptTransformation", "Call")
_METADATA_QUERIES: Final = ("Show", "Describe")
_PATHS_ARE_TABLES: Final = "spark.sql.runSQLOnFiles"
_VIEW: Final = "View"
# Sources that an analysed query may read: views of the lake, literal values and its WITH clauses.
_SOURCES: Final = frozenset({_VIEW, "LocalRelation", "OneRowRelation", "Range", "CTERelationRef", "UnionLoopRef"})
# `reflect`, `java_method`, `try_reflect`; functions that load a class or a file by name; user-defined functions.
_RUNS_CODE: Final = frozenset(
    {"CallMethodViaReflection", "TryReflect", "FromProtobuf", "ToProtobuf", "ScalaUDF", "PythonUDF", "PythonUDAF"}
)
_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*")
# Strings, quoted names and comments match first, so that nothing inside them is taken for a table.
_TOKENS: Final = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|\b([a-z]+)\s*\.\s*([a-z_]+)\b",
    re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class QueryResult:
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool
    """True when the query has more rows than the limit."""


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


def run_query(session: LakeSession, sql: str, *, limit: int) -> QueryResult:
    """The first rows of a query; raise InvalidInput for an invalid query and for anything that does not only read.

    Timestamps are in UTC, whatever the machine's time zone.
    """
    with _in_one_sentence(session, "Spark does not understand the query"), _only_views(session.spark):
        frame = _read_only(session, replace_table_names(sql.strip().rstrip(";")))
    with _in_one_sentence(session, "The query failed"):
        found = frame.limit(limit + 1).toArrow()
    rows = tuple(zip(*(column.to_pylist() for column in found.columns), strict=True))
    return QueryResult(tuple(frame.columns), rows[:limit], len(rows) > limit)


@contextmanager
def _only_views(spark: SparkSession) -> Iterator[None]:
    """Allow only views as tables: otherwise Spark reads csv.`/a/path` as a table."""
    before = spark.conf.get(_PATHS_ARE_TABLES)
    spark.conf.set(_PATHS_ARE_TABLES, "false")
    try:
        yield
    finally:
        spark.conf.set(_PATHS_ARE_TABLES, before or "true")


def _read_only(session: LakeSession, sql: str) -> DataFrame:
    # Check for commands before the analysis, which executes them.
    jvm = session.spark.sparkContext._jvm  # noqa: SLF001 - PySpark shows no parser
    plan = session.spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)  # noqa: SLF001
    command = jvm.java.lang.Class.forName(_COMMAND)  # type: ignore[union-attr]
    is_shown = _kind(plan).startswith(_METADATA_QUERIES)
    if not is_shown and any(
        command.isInstance(part) or _kind(part).startswith(_WRITES_OR_EXECUTES) for part in _parts(plan)
    ):
        raise InvalidInput("Only queries are allowed: SELECT, WITH, SHOW and DESCRIBE. The lake was not changed.")
    frame = session.spark.sql(sql)
    if not is_shown:
        _check_analyzed(frame._jdf.queryExecution().analyzed())  # noqa: SLF001 - PySpark shows no plan
    return frame


def _check_analyzed(plan: JavaPlan) -> None:
    """Raise InvalidInput unless all rows come from views of the lake or from the query, and no function runs code."""
    for part in _parts(plan, within_views=False):
        kind = _kind(part)
        if part.children().isEmpty() and kind not in _SOURCES:
            raise InvalidInput(
                f"A query can only read tables of the lake, not {kind}. `tinyagi pipeline tables` lists them."
            )
        for expression in _each(part.expressions()):
            _check_expression(expression)


def _check_expression(expression: JavaPlan) -> None:
    if _kind(expression) in _RUNS_CODE:
        raise InvalidInput(
            f"A query may not call {expression.prettyName()}, which runs Java code. "
            "`tinyagi pipeline shell` has no such limit."
        )
    for inner in _each(expression.children()):
        _check_expression(inner)


def _kind(plan: JavaPlan) -> str:
    return str(plan.getClass().getSimpleName())


def _parts(plan: JavaPlan, *, within_views: bool = True) -> Iterator[JavaPlan]:
    """A plan and all its parts: an INSERT may follow a WITH, a program may be in a subquery."""
    yield plan
    if _kind(plan) == _VIEW and not within_views:
        return
    for inner in (plan.children(), plan.innerChildren(), plan.subqueries()):
        for part in _each(inner):
            yield from _parts(part, within_views=within_views)


def _each(sequence: JavaPlan) -> Iterator[JavaPlan]:
    """The items of a Scala sequence."""
    for place in range(sequence.size()):
        yield sequence.apply(place)


@contextmanager
def _in_one_sentence(session: LakeSession, beginning: str) -> Iterator[None]:
    """Turn an error of Spark into InvalidInput, and keep Spark from also printing its stack."""
    # Executors log through log4j, whose level is otherwise `error`.
    session.spark.sparkContext.setLogLevel("OFF")
    try:
        with without_context_logs():
            yield
    except PySparkException as error:
        raise InvalidInput(f"{beginning}: {in_short(error)}") from error
    finally:
        session.spark.sparkContext.setLogLevel("ERROR")


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
