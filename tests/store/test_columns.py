"""Python's fields, the statements and the views have the same column order."""

import re
from collections.abc import Sequence

import apsw
import pytest

from tinyagi.domain.messages import Message
from tinyagi.domain.responses import Response
from tinyagi.store import enqueue, responses
from tinyagi.store.connection import load_statements
from tinyagi.store.migrations import load_migrations, split_statements


@pytest.mark.parametrize(
    ("statement", "columns"),
    [("insert_message", (*enqueue.COLUMNS, "waits_for")), ("insert_response", responses.COLUMNS)],
)
def test_columns_match_the_insert_statement(statement: str, columns: Sequence[str]) -> None:
    text = load_statements()[statement]
    named = re.search(r"\(([^)]*)\)\s*VALUES\s*\(([^)]*)\)", text)
    assert named is not None
    assert tuple(re.findall(r"\w+", named[1])) == columns
    assert named[2].count("?") == len(columns)


@pytest.mark.parametrize(("view", "fields"), [("message_rows", Message._fields), ("response_rows", Response._fields)])
def test_columns_of_a_view_match_the_fields(view: str, fields: Sequence[str]) -> None:
    connection = apsw.Connection(":memory:")
    for _, _, text in load_migrations():
        for statement in split_statements(text):
            connection.execute(statement)
    columns = connection.execute("SELECT name FROM pragma_table_info(?)", (view,)).fetchall()
    assert tuple(name for (name,) in columns) == fields
