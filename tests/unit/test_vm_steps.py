import apsw
import pytest

from tests.support.vm_steps import count_vm_steps


@pytest.fixture
def connection() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE numbers (value INTEGER PRIMARY KEY)")
    connection.executemany("INSERT INTO numbers VALUES (?)", [(value,) for value in range(1000)])
    return connection


def test_a_scan_takes_steps_for_each_row_and_a_lookup_does_not(connection: apsw.Connection) -> None:
    scan = count_vm_steps(connection, "SELECT count(*) FROM numbers WHERE value % 7 = ?", (3,))
    lookup = count_vm_steps(connection, "SELECT value FROM numbers WHERE value = ?", (3,))

    assert scan > 1000
    assert lookup < 50


def test_steps_of_a_trigger_count(connection: apsw.Connection) -> None:
    insert = "INSERT INTO numbers VALUES (?)"
    before = count_vm_steps(connection, insert, (1000,))
    connection.execute(
        "CREATE TRIGGER look AFTER INSERT ON numbers BEGIN SELECT count(*) FROM numbers WHERE value % 7 = 3; END"
    )

    assert count_vm_steps(connection, insert, (1001,)) > before + 1000


def test_counting_stops_when_the_statement_fails(connection: apsw.Connection) -> None:
    with pytest.raises(apsw.ConstraintError):
        count_vm_steps(connection, "INSERT INTO numbers VALUES (?)", (1,))

    assert count_vm_steps(connection, "SELECT value FROM numbers WHERE value = ?", (3,)) < 50
