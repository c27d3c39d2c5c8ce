"""Constraints of the database: a bug fails instead of leaving an invalid row."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from tinyagi.store.connection import connect, load_statements
from tinyagi.store.migrations import migrate

GOOD = (
    "INSERT INTO projects VALUES ('p1', 'Site', '', 'WEB', NULL, 'active', 1, 1)",
    "INSERT INTO tasks VALUES ('t1', 1, 'WEB-1', 'x', '', 'todo', NULL, NULL, 'p1', 1, 1, 1)",
    "INSERT INTO comments VALUES ('c1', 't1', 'Ada', 'user', 'x', 1)",
    "INSERT INTO schedules VALUES ('s1', 'daily', 'coder', 'x', '* * * *', NULL, 'a', 'b', 1, NULL, 5, 4, 1, 1, NULL)",
    "INSERT INTO pairing_requests VALUES ('CODE', 'telegram', '1', 'Ada', 1, 2)",
    "INSERT INTO paired_senders VALUES ('telegram', '1', 'Ada', 1, 'CODE')",
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[apsw.Connection]:
    path = tmp_path / "tinyagi.db"
    connection = connect(path, timedelta(seconds=1))
    migrate(connection, load_statements(), path, tmp_path / "backups", 1)
    for statement in GOOD:
        connection.execute(statement)
    yield connection
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE projects SET status = 'gone'",
        "INSERT INTO projects VALUES ('p2', 'Other', '', 'web', NULL, 'active', 1, 1)",
        "UPDATE tasks SET status = 'blocked'",
        "UPDATE tasks SET assignee_type = 'person'",
        "UPDATE tasks SET project_id = 'nobody'",
        "INSERT INTO tasks VALUES ('t2', 1, 'web-1', 'x', '', 'todo', NULL, NULL, NULL, 1, 1, 1)",
        "UPDATE comments SET author_type = 'bot'",
        "UPDATE comments SET task_id = 'nothing'",
        "UPDATE schedules SET run_at = 1",
        "UPDATE schedules SET cron = NULL",
        "UPDATE schedules SET enabled = 2",
        "UPDATE schedules SET next_at = 4",
        "INSERT INTO schedules VALUES ('s2', 'daily', 'coder', 'x', NULL, 9, 'a', 'b', 1, NULL, 9, NULL, 1, 1, NULL)",
        "INSERT INTO pairing_requests VALUES ('OTHER', 'telegram', '1', 'Ada', 1, 2)",
        "INSERT INTO paired_senders VALUES ('telegram', '1', 'Eve', 1, NULL)",
    ],
)
def test_an_invalid_row_is_refused(database: apsw.Connection, statement: str) -> None:
    with pytest.raises(apsw.ConstraintError):
        database.execute(statement)


def test_foreign_keys_are_enforced(database: apsw.Connection) -> None:
    assert database.pragma("foreign_keys") == 1
    database.execute("DELETE FROM projects")
    assert database.execute("SELECT project_id FROM tasks").fetchall() == [(None,)]
    database.execute("DELETE FROM tasks")
    assert database.execute("SELECT count(*) FROM comments").get == 0
