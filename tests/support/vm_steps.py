"""Counts the work of a SQL statement in steps of SQLite's virtual machine: the same number on every machine."""

from typing import Any

import apsw


def count_vm_steps(connection: apsw.Connection, statement: str, parameters: "apsw.Bindings" = ()) -> int:
    """Run the statement to its end and return its steps, triggers included."""
    steps: list[int] = []

    def note(profile: dict[str, Any]) -> None:
        steps.append(profile["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note, id=note)
    try:
        connection.execute(statement, parameters).fetchall()
    finally:
        connection.trace_v2(0, None, id=note)
    return sum(steps)
