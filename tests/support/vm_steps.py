"""Counts the work of SQL statements in steps of SQLite's virtual machine: the same number on every machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw


def count_vm_steps(connection: apsw.Connection, statement: str, parameters: "apsw.Bindings" = ()) -> int:
    """Run the statement to its end and return its steps, triggers included."""
    with counted_vm_steps(connection) as steps:
        connection.execute(statement, parameters).fetchall()
    return sum(steps)


@contextmanager
def counted_vm_steps(connection: apsw.Connection) -> Iterator[list[int]]:
    """The steps of each statement that the block runs on this connection."""
    steps: list[int] = []

    def note(profile: dict[str, Any]) -> None:
        steps.append(profile["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note, id=note)
    try:
        yield steps
    finally:
        connection.trace_v2(0, None, id=note)
