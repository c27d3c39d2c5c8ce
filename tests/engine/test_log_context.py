"""Log lines within a run carry its agent, message and conversation, also in its tasks and threads."""

import asyncio
import logging

from tests.engine.conftest import House
from tests.support.puppet import failing
from tinyagi.engine.active_run import current_run_fields
from tinyagi.providers.base import RunRequest


async def test_a_run_has_its_agent_message_and_conversation_as_log_fields(house: House) -> None:
    seen: dict[str, object] = {}

    async def looking(request: RunRequest) -> str:
        seen[request.agent] = current_run_fields(), await asyncio.to_thread(current_run_fields)
        return "[@writer: go on]" if request.agent == "coder" else "done"

    house.puppet.plays = {"coder": looking, "writer": looking}
    async with house.open():
        await house.send("@dev go", message_id="api_1")
        await house.drained()
        first, handed_on = await house.messages()

    mine = {"agent": "coder", "message_id": "api_1", "conversation_id": "api_1"}
    theirs = {"agent": "writer", "message_id": handed_on.message_id, "conversation_id": first.conversation_id}
    assert seen == {"coder": (mine, mine), "writer": (theirs, theirs)}
    assert current_run_fields() == {}


async def test_log_lines_of_the_lane_carry_the_message_id(house: House) -> None:
    lines: dict[str, list[str]] = {}

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.setdefault(current_run_fields().get("message_id", ""), []).append(record.getMessage())

    house.puppet.plays["coder"] = failing()
    house.settings["queue"]["attempts"] = 1
    lane, listener = logging.getLogger("tinyagi.engine.lane"), Listener()
    lane.addHandler(listener)
    try:
        async with house.open():
            await house.send("@coder go", message_id="api_1")
            await house.until_event("message_dead")
    finally:
        lane.removeHandler(listener)

    assert any("failed" in line for line in lines["api_1"])
    assert "" not in lines
