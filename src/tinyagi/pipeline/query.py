"""SQL over the lake: every table under its own name, as of the manifest, and nothing but reading."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, functions

from tinyagi.domain.errors import InvalidInput
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.workshop import Workshop

JavaPlan: TypeAlias = Any
"""A plan of Spark's parser, in Java."""

_COMMAND: Final = "org.apache.spark.sql.catalyst.plans.logical.Command"
# What writes, runs a program or hides another statement without being a command to Spark's parser.
_DOES_MORE: Final = ("InsertInto", "UnresolvedExecuteImmediate", "ScriptTransformation", "Call")
_SHOWS: Final = ("Show", "Describe")
_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+.*")
# Texts, quoted names and comments are matched first, so that nothing inside them is taken for a table.
_TOKENS: Final = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|\b([a-z]+)\s*\.\s*([a-z_]+)\b",
    re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool
    """True when there are more rows than were asked for."""


def make_views(shop: Workshop) -> None:
    """Every table of the manifest as a temporary view: `silver.runs` is `silver_runs`."""
    for name in TABLES:
        shop.read(shop.open(name)).createOrReplaceTempView(view_of(name))


def at_hand(shop: Workshop) -> dict[str, object]:
    """What somebody at a prompt wants by name, with all views made."""
    make_views(shop)
    return {"spark": shop.spark, "table": lambda name: shop.read(shop.open(name)), "F": functions}


def view_of(name: str) -> str:
    return name.replace(".", "_")


def with_views(sql: str) -> str:
    """The statement with the names of tables replaced by those of their views: Spark's views have no schema."""

    def replaced(found: re.Match[str]) -> str:
        name = f"{found[1]}.{found[2]}".lower() if found[1] else ""
        return view_of(name) if name in TABLES else found[0]

    return _TOKENS.sub(replaced, sql)


def ask(shop: Workshop, sql: str, *, limit: int) -> Answer:
    """The first rows of a query; raise InvalidInput for what Spark does not understand, or what would write.

    Instants are in UTC, as everywhere in the lake, wherever this machine is.
    """
    with _in_one_sentence(shop, "Spark does not understand the query"):
        frame = _read_only(shop, with_views(sql.strip().rstrip(";")))
    with _in_one_sentence(shop, "The query failed"):
        found = frame.limit(limit + 1).toArrow()
    rows = tuple(zip(*(column.to_pylist() for column in found.columns), strict=True))
    return Answer(tuple(frame.columns), rows[:limit], len(rows) > limit)


def _read_only(shop: Workshop, sql: str) -> DataFrame:
    jvm = shop.spark.sparkContext._jvm  # noqa: SLF001 - PySpark shows no parser
    plan = shop.spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)  # noqa: SLF001
    command = jvm.java.lang.Class.forName(_COMMAND)  # type: ignore[union-attr]
    if not _kind(plan).startswith(_SHOWS) and any(
        command.isInstance(part) or _kind(part).startswith(_DOES_MORE) for part in _parts(plan)
    ):
        raise InvalidInput("Only queries are answered here: SELECT, WITH, SHOW, DESCRIBE. The lake is not changed.")
    return shop.spark.sql(sql)


def _kind(plan: JavaPlan) -> str:
    return str(plan.getClass().getSimpleName())


def _parts(plan: JavaPlan) -> Iterator[JavaPlan]:
    """A plan with all that it is made of: an INSERT may stand behind a WITH, a program within a subquery."""
    yield plan
    for inner in (plan.children(), plan.innerChildren(), plan.subqueries()):
        for place in range(inner.size()):
            yield from _parts(inner.apply(place))


@contextmanager
def _in_one_sentence(shop: Workshop, beginning: str) -> Iterator[None]:
    """Raise InvalidInput for an error of Spark's, and keep Spark from printing it with its stack as well."""
    loggers = [PySparkLogger.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.disabled = True
    # The executors' threads speak through log4j, whose level is `error` everywhere else.
    shop.spark.sparkContext.setLogLevel("OFF")
    try:
        yield
    except PySparkException as error:
        raise InvalidInput(f"{beginning}: {_in_short(error)}") from error
    finally:
        shop.spark.sparkContext.setLogLevel("ERROR")
        for logger in loggers:
            logger.disabled = False


def _in_short(error: PySparkException) -> str:
    """What went wrong, without Spark's plans and traces."""
    lines = [line for line in (error.getMessage() or str(error)).splitlines() if line.strip()]
    told = _STATE.sub("", lines[0]) if lines else type(error).__name__
    hint = " `tinyagi pipeline tables` lists what there is."
    return told + (hint if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND" else "")
