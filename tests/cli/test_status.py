"""`tinyagi status`: how far the lake is behind, and which background tasks fail."""

from tests.cli.conftest import Remote
from tests.server.conftest import Premises
from tinyagi.engine.archiving import LAKE


async def lake_line(remote: Remote) -> str:
    shown = (await remote("status")).stdout
    (line,) = (line for line in shown.splitlines() if line.startswith("lake "))
    return line.removeprefix("lake").strip()


async def test_without_a_lake_it_is_off(remote: Remote) -> None:
    assert await lake_line(remote) == "off"


async def test_a_lake_that_has_everything_is_up_to_date(remote: Remote, premises: Premises) -> None:
    await premises.store.events.acknowledge(LAKE, (await premises.store.events.bounds()).head)

    assert await lake_line(remote) == "up to date; nobody runs the pipeline"


async def test_a_lake_that_is_behind_tells_by_how_much_and_why(remote: Remote, premises: Premises) -> None:
    await premises.store.events.acknowledge(LAKE, 1)
    await premises.send("@coder build it")
    await premises.drained()
    premises.engine.archiving.last_error = "it ended with code 3"

    line = await lake_line(remote)

    count = (await premises.store.events.bounds()).head - 1
    assert line.startswith(f"{count} events behind, the oldest ")
    assert line.endswith(" old; nobody runs the pipeline; its last run failed: it ended with code 3")


async def test_a_background_task_that_fails_is_named_with_its_error(remote: Remote, premises: Premises) -> None:
    assert "failing" not in (await remote("status")).stdout

    task = premises.engine.background.states["tidy"]
    task.failing, task.last_error = True, "the disk is full"

    assert "the disk is full" in next(
        line for line in (await remote("status")).stdout.splitlines() if line.startswith("failing  ") and "tidy" in line
    )
