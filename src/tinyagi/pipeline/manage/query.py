"""Read-only SQL over the lake with DuckDB: every table under its own name, as the manifest pins it. Needs no Spark.

DuckDB itself opens no file: it reads Arrow datasets of the tables, so a query cannot read or write anything else.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import duckdb
import pyarrow as pa

# Deltalake imports it late. This module does it early, so that its importer controls what it loads.
import pyarrow.dataset

from tinyagi.domain.errors import InvalidInput
from tinyagi.pipeline.errors import LakeBroken
from tinyagi.pipeline.instants import stored_schema
from tinyagi.pipeline.lake import Lake
from tinyagi.pipeline.tables.catalog import TABLES
from tinyagi.pipeline.tables.schema import arrow_schema

READ_ONLY: Final = "Only queries are allowed: SELECT, WITH, EXPLAIN, DESCRIBE, SHOW and SUMMARIZE. Nothing was changed."
TABLES_HINT: Final = "`tinyagi pipeline tables` lists the tables."
_THREADS: Final = 4
_SETTINGS: Final = {
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # A division by zero is null, as JSON knows no infinity.
    "error_on_division_by_zero": "false",
    "ieee_floating_point_ops": "false",
    "memory_limit": "50%",
    # Otherwise a name in the query could be a variable of this program.
    "python_enable_replacements": "false",
    # Otherwise a large query writes into the working directory.
    "temp_directory": "",
    "threads": str(min(_THREADS, os.cpu_count() or 1)),
}
# DuckDB accepts a time zone only after the start, and nothing after the lock.
_LOCK: Final = "SET TimeZone = 'UTC'; SET enable_external_access = false; SET lock_configuration = true"
# MULTI is a PIVOT that first looks for its values. DESCRIBE, SHOW and SUMMARIZE are of the type SELECT.
_QUERIES: Final = frozenset({"SELECT", "EXPLAIN", "MULTI"})
_EXPLAIN: Final = re.compile(r"\s*EXPLAIN\b\s*(ANALYZE\b)?\s*(\([^()]*\))?", re.IGNORECASE)
# Lists of tables that DuckDB answers itself.
_CATALOG: Final = re.compile(r"information_schema|duckdb_|pg_|sqlite_")
_SPACE_AND_QUOTES: Final = re.compile(r'[\s"]+')
# Python has no equal type, or Arrow needs pandas for it.
_SHOWN_AS_TEXT: Final = frozenset({"BIT", "BLOB", "INTERVAL", "TIME WITH TIME ZONE", "TIME_NS", "TIMESTAMP_NS"})
_LARGE_INTEGERS: Final = frozenset({"HUGEINT", "UHUGEINT"})
_ERROR_KIND: Final = re.compile(r"^[\w -]+ Error: ")
_HINTS: Final = ("Did you mean", "Candidate bindings")
_INTERRUPTED: Final = "Query interrupted"
_BROKEN_FILE: Final = "reading the stream registered as"


@dataclass(frozen=True, slots=True)
class QueryResult:
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool
    """True when the query has more rows than the limit."""


class LakeQuery:
    """An in-memory DuckDB over one lake; all statements see the tables of the same manifest."""

    def __init__(self, lake: Lake) -> None:
        manifest = lake.manifest()
        if manifest is None:
            raise LakeBroken(f"There is no lake at {lake.folder} yet. Run `tinyagi pipeline run`.")
        self._lake = lake
        self._pins = manifest.tables
        self._opened: set[str] = set()
        self._connection = duckdb.connect(":memory:", config=dict(_SETTINGS))
        for layer in {name.partition(".")[0] for name in TABLES}:
            self._connection.execute(f"CREATE SCHEMA {layer}")
        self._connection.execute(_LOCK)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def run(self, sql: str, *, limit: int) -> QueryResult:
        """The first rows of a query; raise InvalidInput for an invalid query and for anything that does not only read.

        Instants are in UTC, whatever the machine's time zone.
        """
        with _in_one_sentence():
            statement = self._checked(sql)
            self._open(_tables_in(sql, self._pins))
            try:
                return self._read(statement, limit)
            except duckdb.CatalogException:
                # A function such as query_table() can name a table in parts. Also, DuckDB suggests only known names.
                self._open(self._pins)
                return self._read(statement, limit)

    def _checked(self, sql: str) -> str:
        """The only statement of `sql`, which is a query or explains one."""
        statements = self._connection.extract_statements(sql)
        if not statements:
            raise InvalidInput("The statement is empty. Give a SELECT over tables such as silver.runs.")
        if len(statements) > 1:
            raise InvalidInput("Give one statement at a time; a file with several is read with --file.")
        try:
            kind = statements[0].type.name
        except ValueError:
            # DuckDB's Python package does not know all types of statements.
            kind = ""
        explained = _EXPLAIN.match(sql)
        if kind not in _QUERIES or (kind == "EXPLAIN" and not explained):
            raise InvalidInput(READ_ONLY)
        if explained:
            # EXPLAIN ANALYZE runs what it explains.
            self._checked(sql[explained.end() :])
        return statements[0].query

    def _open(self, names: Iterable[str]) -> None:
        """Create the views of these tables. It takes milliseconds per table, so only those of the query are opened."""
        for name in names:
            if name in self._opened or name not in TABLES:
                continue
            pin = self._pins.get(name)
            handle = self._lake.delta(name, as_of=None if pin is None else pin.version)
            schema = stored_schema(TABLES[name], handle)
            # An older lake stores instants as milliseconds.
            old = [
                field.name
                for field, declared in zip(schema, arrow_schema(TABLES[name]), strict=True)
                if field.type != declared.type
            ]
            # One view by the full name holds the dataset; the other one has schema and name.
            self._connection.register(name, handle.to_pyarrow_dataset(schema=schema))
            columns = ", ".join(f"make_timestamptz({column} * 1000) AS {column}" for column in old)
            self._connection.execute(
                f'CREATE VIEW {name} AS SELECT *{f" REPLACE ({columns})" if old else ""} FROM "{name}"'  # noqa: S608
            )
            self._opened.add(name)

    def _read(self, statement: str, limit: int) -> QueryResult:
        # In this transaction even EXPLAIN ANALYZE and a WITH that inserts cannot change a view.
        self._connection.execute("BEGIN TRANSACTION READ ONLY")
        try:
            relation = self._connection.sql(statement)
            columns, types = tuple(relation.columns), [str(kind) for kind in relation.types]
            chosen = ", ".join(
                f"#{place}::VARCHAR" if kind in _SHOWN_AS_TEXT else f"#{place}" for place, kind in enumerate(types, 1)
            )
            found = relation.limit(limit + 1).project(chosen).to_arrow_table()
        finally:
            self._connection.execute("ROLLBACK")
        values = [_values(column, kind) for column, kind in zip(found.columns, types, strict=True)]
        rows = tuple(zip(*values, strict=True))
        return QueryResult(columns, rows[:limit], len(rows) > limit)


def _tables_in(sql: str, all_tables: Iterable[str]) -> Iterable[str]:
    """The tables that a statement names, or all: when it names none, and when it reads DuckDB's catalog.

    A name may also be part of another word; one table too many costs only time.
    """
    text = _SPACE_AND_QUOTES.sub("", sql.lower())
    named = [name for name in TABLES if name in text]
    return all_tables if not named or _CATALOG.search(text) else named


def _values(column: pa.ChunkedArray, kind: str) -> list[Any]:
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError) as error:
        raise InvalidInput(f"Python cannot show a value of the type {kind}: {error}. Cast it to VARCHAR.") from error
    if kind in _LARGE_INTEGERS:
        # Arrow has no such integer: it makes it a decimal without a fraction.
        return [None if value is None else int(value) for value in values]
    return list(values)


@contextmanager
def _in_one_sentence() -> Iterator[None]:
    """Turn an error of DuckDB into InvalidInput, and an interrupted query into KeyboardInterrupt."""
    try:
        yield
    except duckdb.Error as error:
        _refuse(error)
    except RuntimeError as error:
        if _INTERRUPTED in str(error):
            raise KeyboardInterrupt from error
        raise


def _refuse(error: duckdb.Error) -> NoReturn:
    if _BROKEN_FILE in str(error):
        raise InvalidInput("A file of the lake cannot be read; `vacuum` may have deleted it. Ask again.") from error
    match error:
        case duckdb.PermissionException():
            raise InvalidInput(
                f"A query can only read tables of the lake, no files and addresses. {TABLES_HINT}"
            ) from error
        case duckdb.TransactionException():
            raise InvalidInput(READ_ONLY) from error
        case duckdb.ParserException() | duckdb.BinderException() | duckdb.CatalogException():
            beginning = "DuckDB does not understand the query"
        case _:
            beginning = "The query failed"
    raise InvalidInput(f"{beginning}: {in_short(error)}") from error


def in_short(error: duckdb.Error) -> str:
    """The first line of the error and DuckDB's hint, without the kind of the error and the excerpt of the query."""
    lines = str(error).splitlines()
    text = " ".join([_first_line(error), *(line for line in lines[1:] if line.startswith(_HINTS))])
    return f"{text} {TABLES_HINT}" if text.startswith("Table with name") else text


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return _ERROR_KIND.sub("", lines[0]) if lines else type(error).__name__
