"""Databases of the original are read and copied as their last user left them, and stay as they are."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.old_home import contents, make_board
from tinyagi.domain.errors import StoreFailed
from tinyagi.legacy.old_database import open_old
from tinyagi.store.backup import replace_database


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A closed board in WAL mode, in a folder whose name means something in an address."""
    path = tmp_path / "old ?#%41" / "tasks.db"
    path.parent.mkdir()
    make_board(path)
    return path


def titles(path: Path) -> list[object]:
    with open_old(path) as database:
        return [row["title"] for row in database.rows("tasks")]


def stored_titles(path: Path) -> list[object]:
    with closing(sqlite3.connect(path)) as connection:
        return [title for (title,) in connection.execute("SELECT title FROM tasks ORDER BY rowid")]


def dead_in_a_transaction(path: Path, folder: Path) -> None:
    """Replace the database by one whose last user died after half of a transaction reached the file."""
    living = folder / "living.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    living.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(living)) as connection:
        # Such a small cache writes changed pages to the file before the commit.
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("UPDATE tasks SET title = 'lost', description = hex(randomblob(20000))")
        for ending in ("", "-journal"):
            path.with_name(path.name + ending).write_bytes(living.with_name(living.name + ending).read_bytes())


def test_rows_are_read_by_name_without_a_trace(board: Path) -> None:
    before = contents(board.parent)

    assert titles(board) == stored_titles(board)
    with open_old(board) as database:
        assert database.rows("comments")
        assert database.rows("projects")
        assert not database.is_original
        assert set(database.counts().values()) == {0}

    assert contents(board.parent) == before


def test_half_a_transaction_is_rolled_back_in_the_copy_only(board: Path, tmp_path: Path) -> None:
    expected = stored_titles(board)
    dead_in_a_transaction(board, tmp_path)
    before = contents(board.parent)

    assert titles(board) == expected
    with open_old(board) as database:
        database.copy_to(tmp_path / "copy.db")

    assert contents(board.parent) == before
    assert stored_titles(tmp_path / "copy.db") == expected


def test_a_copy_is_one_file_of_its_owner(board: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copies" / "tasks.db"
    copy.parent.mkdir()
    copy.write_text("left by a crash")
    before = contents(board.parent)

    with open_old(board) as database:
        database.copy_to(copy)

    assert list(copy.parent.iterdir()) == [copy]
    assert copy.stat().st_mode & 0o777 == 0o600
    assert titles(copy) == titles(board)
    assert contents(board.parent) == before


def test_a_database_is_replaced_without_the_log_of_the_old_one(board: Path, tmp_path: Path) -> None:
    place = tmp_path / "tinyagi.db"
    make_board(place)
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("DELETE FROM tasks")
        connection.commit()
        log, main = place.with_name("tinyagi.db-wal").read_bytes(), place.read_bytes()
    place.write_bytes(main)
    place.with_name("tinyagi.db-wal").write_bytes(log)
    aside = tmp_path / ".tinyagi.db.new"
    with open_old(board) as database:
        database.copy_to(aside)

    replace_database(aside, place)

    assert not aside.exists()
    assert not place.with_name("tinyagi.db-wal").exists()
    assert stored_titles(place) == stored_titles(board)


def test_a_damaged_database_is_named_with_a_remedy(board: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"no database" * 100)
    aside = tmp_path / "aside.db"
    refused = (
        rf"{damaged} cannot be read \(file is not a database\)\. Repair it with `sqlite3 … \.recover` or move it away"
    )

    with pytest.raises(StoreFailed, match=refused), open_old(damaged):
        pass
    with pytest.raises(StoreFailed, match=refused):
        replace_database(aside, damaged)
    with pytest.raises(StoreFailed, match=r"nowhere\.db cannot be read"), open_old(tmp_path / "nowhere.db"):
        pass


def test_text_that_is_not_utf_8_is_named_with_a_remedy(board: Path) -> None:
    with closing(sqlite3.connect(board)) as connection, connection:
        connection.execute("UPDATE tasks SET title = CAST(x'ff61' AS TEXT)")

    with open_old(board) as database, pytest.raises(StoreFailed, match=r"tasks\.db cannot be read"):
        database.rows("tasks")
