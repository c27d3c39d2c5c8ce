"""`tinyagi status`: the line that tells how far the lake is behind."""

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
