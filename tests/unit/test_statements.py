"""The SQL files: how they are read, and that SQLite accepts every statement."""

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Final

import apsw
import apsw.ext
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyagi.store import connection, migrations
from tinyagi.store.connection import connect, load_statements
from tinyagi.store.migrations import load_migrations, migrate, split_statements

SQL: Final = load_statements()
OLD_TABLES: Final = ("messages", "responses", "chat_messages", "agent_messages")
ON_OLD_TABLES: Final = {f"{verb}_{table}" for verb in ("import", "drop") for table in OLD_TABLES}

TRIGGER: Final = """\
CREATE TRIGGER count_in AFTER INSERT ON t BEGIN
  UPDATE counts SET n = n + 1;
  UPDATE counts SET last = CASE WHEN new.a = ';' THEN 1 ELSE 2 END;
END;
"""

scripts = st.lists(
    st.sampled_from(
        [
            TRIGGER,
            "CREATE TABLE t (a, b);\n",
            "CREATE TABLE t (\n  a, -- a comment; with a semicolon\n  b\n);\n",
            "INSERT INTO t VALUES ('a;\nb');\n",
            "-- What comes next; and why.\nDROP TABLE t;\n",
            "\nDROP TABLE t; -- no longer needed\n",
        ]
    )
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[apsw.Connection]:
    """An empty database of this version, opened as the store opens it."""
    with closing(connect(Path(":memory:"), timedelta(seconds=1))) as connection:
        migrate(connection, SQL, Path(":memory:"), tmp_path, now=0)
        yield connection


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for SQL files."""
    for module in (connection, migrations):
        monkeypatch.setattr(module, "files", lambda package: tmp_path)
    folder = tmp_path / "sql"
    (folder / "migrations").mkdir(parents=True)
    return folder


def create_legacy_tables(database: apsw.Connection, name: str) -> None:
    """Create the tables of the original program that the statement uses."""
    for table in OLD_TABLES:
        if name in ON_OLD_TABLES:
            database.execute(SQL[f"create_{table}"])
        elif name.startswith(f"add_{table}_"):
            database.execute(f"CREATE TABLE legacy_{table} (id INTEGER)")


def dummies(names: tuple[str | None, ...]) -> dict[str, None] | tuple[None, ...]:
    """A NULL for every parameter; a number as name is a position."""
    named = {name: None for name in names if name is not None and not name.isdigit()}
    return named or (None,) * len(names)


def test_a_statement_ends_at_the_next_name(folder: Path) -> None:
    (folder / "some.sql").write_text("-- name: one\nSELECT 1;\n\n-- name: two\nSELECT 2\nWHERE 1 = 1;\n")
    assert load_statements() == {"one": "SELECT 1", "two": "SELECT 2 WHERE 1 = 1"}


def test_comments_are_not_part_of_a_statement(folder: Path) -> None:
    (folder / "some.sql").write_text("-- About this file.\n\n-- name: one\n-- Why it has this shape.\nSELECT 1;\n")
    assert load_statements() == {"one": "SELECT 1"}


def test_statements_are_loaded_from_sql_files_only(folder: Path) -> None:
    (folder / "a.sql").write_text("-- name: one\nSELECT 1;\n")
    (folder / "b.sql").write_text("-- name: two\nSELECT 2;\n")
    (folder / "notes.txt").write_text("-- name: three\nSELECT 3;\n")
    (folder / "migrations" / "0001_four.sql").write_text("-- name: four\nSELECT 4;\n")
    assert set(load_statements()) == {"one", "two"}


@pytest.mark.parametrize("second_file", ["a.sql", "b.sql"])
def test_a_duplicate_statement_name_is_refused(folder: Path, second_file: str) -> None:
    for file in ("a.sql", second_file):
        with (folder / file).open("a") as opened:
            opened.write("-- name: one\nSELECT 1;\n")
    with pytest.raises(ValueError, match="Two statements are named one"):
        load_statements()


def test_migrations_are_ordered_by_number(folder: Path) -> None:
    # Many, so that the order of the directory is not right by chance.
    wanted = [(number, f"{number:04}_step", f"-- Step {number}.\n") for number in range(1, 31)]
    for _, name, text in wanted:
        (folder / "migrations" / f"{name}.sql").write_text(text)
    assert load_migrations() == wanted


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [number for number, _, _ in load_migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_statement_name_in_the_files_is_found() -> None:
    # Looser than the reader's pattern: an extra space must not hide a statement in the one before it.
    name_line = re.compile(r"^\s*--\s*name\b\W*(\w+)", re.MULTILINE)
    folder = files("tinyagi.store").joinpath("sql")
    texts = [file.read_text("utf-8") for file in folder.iterdir() if file.name.endswith(".sql")]
    assert sorted(name for text in texts for name in name_line.findall(text)) == sorted(SQL)


@pytest.mark.parametrize("name", sorted(SQL))
def test_sqlite_accepts_every_statement(database: apsw.Connection, name: str) -> None:
    create_legacy_tables(database, name)
    # Only the connection that erases a person has it.
    database.create_scalar_function("person_of", lambda *_: None, 2)
    query = apsw.ext.query_info(database, SQL[name])
    assert query.query_remaining is None
    assert database.execute(f"EXPLAIN {SQL[name]}", dummies(query.bindings_names)).fetchall()


def test_a_script_is_split_into_statements() -> None:
    assert list(split_statements("CREATE TABLE t (a);\nDROP TABLE t;\n")) == [
        "CREATE TABLE t (a);\n",
        "DROP TABLE t;\n",
    ]


def test_a_trigger_stays_one_statement() -> None:
    assert list(split_statements(f"DROP TABLE t;\n{TRIGGER}DROP TABLE t;\n")) == [
        "DROP TABLE t;\n",
        TRIGGER,
        "DROP TABLE t;\n",
    ]


@given(scripts)
def test_a_script_is_split_only_at_the_ends_of_statements(script: list[str]) -> None:
    assert list(split_statements("".join(script))) == script


@pytest.mark.parametrize("end", ["", "\n\n", "-- The end.\n", "\n-- The end;\n"])
def test_blanks_and_comments_at_the_end_are_ignored(end: str) -> None:
    assert list(split_statements(f"DROP TABLE t;\n{end}")) == ["DROP TABLE t;\n"]


@pytest.mark.parametrize("rest", ["DROP TABLE t", "CREATE TABLE t (a", "SELECT 'a;\n", TRIGGER.removesuffix("END;\n")])
def test_an_unfinished_statement_is_refused(rest: str) -> None:
    with pytest.raises(ValueError, match="ends in the middle of a statement"):
        list(split_statements(f"CREATE TABLE t (a);\n{rest}"))


def test_every_migration_splits_into_its_statements() -> None:
    for _, name, text in load_migrations():
        without_comments = re.sub(r"--.*", "", text)
        wanted = len(re.findall(r"^(?:ALTER|CREATE|DROP|INSERT|UPDATE) ", without_comments, re.MULTILINE))
        assert len(list(split_statements(text))) == wanted, name


def test_every_statement_is_used() -> None:
    folder = Path(__file__).parents[2] / "src/tinyagi/store"
    code = "".join(file.read_text() for file in folder.rglob("*.py"))
    # The legacy statements are named by verb and table, see migrations.py.
    legacy = re.compile(r"(rename|create|add|import|record|drop)_")

    unused = [name for name in load_statements() if f'"{name}"' not in code and not legacy.match(name)]

    assert unused == []
