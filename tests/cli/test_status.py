"""`tinyagi status`: the lag of the lake, failing background tasks and held lanes."""

import re

from tests.cli.conftest import Remote
from tests.server.conftest import Premises
from tinyagi.domain.ids import AgentId
from tinyagi.domain.retry import HoldCause
from tinyagi.engine.pipeline_trigger import LAKE


async def lake_line(remote: Remote) -> str:
    shown = (await remote("status")).stdout
    (line,) = (line for line in shown.splitlines() if line.startswith("lake "))
    return line.removeprefix("lake").strip()


async def test_the_lake_is_off_by_default(remote: Remote) -> None:
    assert await lake_line(remote) == "off"


async def test_a_complete_lake_is_up_to_date(remote: Remote, premises: Premises) -> None:
    await premises.store.events.acknowledge(LAKE, (await premises.store.events.bounds()).head)

    assert await lake_line(remote) == "up to date; the daemon does not run the pipeline"


async def test_the_lag_of_the_lake_is_shown_with_its_cause(remote: Remote, premises: Premises) -> None:
    await premises.store.events.acknowledge(LAKE, 1)
    await premises.send("@coder build it")
    await premises.drained()
    premises.engine.archiving.last_error = "it ended with code 3"

    line = await lake_line(remote)

    count = (await premises.store.events.bounds()).head - 1
    assert line.startswith(f"{count} events behind, the oldest ")
    assert line.endswith(" old; the daemon does not run the pipeline; its last run failed: it ended with code 3")


async def test_a_failing_background_task_is_named_with_its_error(remote: Remote, premises: Premises) -> None:
    assert "failing" not in (await remote("status")).stdout

    task = premises.engine.background.states["tidy"]
    task.failing, task.last_error = True, "the disk is full"

    assert "the disk is full" in next(
        line for line in (await remote("status")).stdout.splitlines() if line.startswith("failing  ") and "tidy" in line
    )


async def test_a_setting_without_effect_is_named(remote: Remote, premises: Premises) -> None:
    await premises.engine.settings.save({"limits": {"daily_costs": 5}})

    assert "Did you mean limits.daily_cost?" in (await remote("status")).stdout


async def test_a_held_lane_names_the_command_to_resume(remote: Remote, premises: Premises) -> None:
    until = premises.store.clock() + 3_600_000
    await premises.store.lanes.hold(
        AgentId("coder"), until=until, reason="needs a fix: there is no key.", cause=HoldCause.FIX
    )
    await premises.store.lanes.hold(AgentId("writer"), until=until, reason="usage limit reached")

    shown = (await remote("status")).stdout

    assert "held: needs a fix: there is no key. To try again: tinyagi queue resume coder" in shown
    assert re.search(r"held until [-: 0-9]+: usage limit reached. To try again at once: ", shown)
