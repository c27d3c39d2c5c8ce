"""Failed runs: retries, holds, dead messages and notices."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.conftest import House
from tests.support.puppet import failing, in_turn
from tinyagi.domain.errors import NotFound, StoreBusy, StoreFull
from tinyagi.domain.ids import AgentId
from tinyagi.domain.limits import Spent
from tinyagi.domain.messages import NewMessage, Status
from tinyagi.domain.retry import FailureKind
from tinyagi.providers.base import RunRequest


async def test_a_retry_is_announced_in_the_prompt(house: House) -> None:
    house.puppet.plays["coder"] = in_turn(failing(), lambda request: f"attempt {request.attempt}")
    async with house.open():
        await house.send("@coder fix it")
        await house.drained()

        (failed,) = await house.events("message_failed")
        (response,) = await house.responses()

    assert (failed.payload["attempt"], failed.payload["reason"]) == (1, "exit code 1: boom")
    assert response.message == "attempt 2"
    assert house.puppet.prompts_of("coder")[1].startswith("[This is attempt 2:")


async def test_a_message_that_always_fails_dies_with_its_error_and_a_notice(house: House) -> None:
    house.settings["queue"]["attempts"] = 3
    house.puppet.plays["coder"] = failing(reason="exit code 1: no such module")
    async with house.open():
        await house.send("@coder fix it", sender="Ada")
        await house.drained()

        (dead,) = await house.store.queue.dead()
        (notice,) = await house.responses()

    assert (dead.retry_count, dead.last_error) == (3, "exit code 1: no such module")
    assert (notice.sender, notice.seq) == ("Ada", 1)
    assert "no such module" in notice.message


async def test_an_unavailable_provider_holds_the_lane_and_uses_no_attempt(house: House) -> None:
    house.puppet.plays["coder"] = in_turn(failing(FailureKind.UNAVAILABLE, "429"), lambda request: str(request.attempt))
    async with house.open():
        await house.send("@coder go")
        held = await house.until_event("lane_held")
        await house.drained()

        (response,) = await house.responses()

    assert held.payload["reason"] == "429"
    assert response.message == "1"


async def test_retry_after_sets_the_length_of_the_hold(house: House) -> None:
    house.puppet.plays["coder"] = failing(FailureKind.UNAVAILABLE, "429", retry_after=timedelta(hours=2))
    async with house.open():
        await house.send("@coder go")
        held = await house.until_event("lane_held")

    assert held.payload["hold_until"] - held.created_at == 2 * 3600 * 1000


async def test_a_failure_that_needs_a_person_sends_one_notice(house: House) -> None:
    missing = failing(FailureKind.UNAVAILABLE, "claude is not installed", needs_person=True)
    house.puppet.plays["coder"] = in_turn(missing, missing, missing, "at last")
    async with house.open():
        await house.send("@coder go", sender="Ada")
        await house.drained()

        notice, answer = await house.responses()

    assert "claude is not installed" in notice.message
    assert answer.message == "at last"


async def test_a_timeout_is_retried_once(house: House) -> None:
    house.puppet.plays["coder"] = failing(FailureKind.TIMEOUT, "it took too long")
    async with house.open():
        await house.send("@coder go")
        await house.drained()

    assert len(house.puppet.requests) == 2


async def test_a_message_for_an_unknown_agent_waits_with_a_notice(house: House) -> None:
    async with house.open():
        await house.store.queue.enqueue(NewMessage("hello", AgentId("ghost"), sender="Ada"))
        held = await house.until_event("lane_held")
        (notice,) = await house.responses()

        assert await house.statuses() == [Status.PENDING]

    assert "ghost" in held.payload["reason"]
    assert "ghost" in notice.message


async def test_an_unexpected_error_uses_an_attempt_and_the_lane_continues(house: House) -> None:
    def broken(request: RunRequest) -> str:
        raise ZeroDivisionError("oops")

    house.puppet.plays["coder"] = in_turn(broken, "fine")
    async with house.open():
        await house.send("@coder go")
        await house.drained()
        (failed,) = await house.events("message_failed")

    assert "ZeroDivisionError" in failed.payload["reason"]


async def test_an_answer_that_cannot_be_stored_fails_its_message(house: House) -> None:
    house.puppet.plays["coder"] = in_turn("half a \ud800 character", "whole")
    async with house.open():
        await house.send("@coder go")
        await house.drained()
        (response,) = await house.responses()

    assert response.message == "whole"


async def test_a_finished_run_is_stored_once_the_disk_has_room(house: House) -> None:
    async with house.open(start=False):
        refused = _refuse_at_first(house, StoreFull("the disk is full"), StoreBusy("locked"))
        await house.engine.start()
        await house.send("@coder go")
        await house.drained()
        (response,) = await house.responses()

    assert refused.count == 2
    assert response.message == "echo: go"
    assert len(house.puppet.requests) == 1


async def test_a_missing_prompt_file_is_named_in_the_error(house: House) -> None:
    house.settings["agents"]["coder"]["prompt_file"] = "missing.md"
    async with house.open():
        await house.send("@coder go")
        held = await house.until_event("lane_held")

    assert "missing.md" in held.payload["reason"]


@pytest.mark.parametrize("name", ["working_directory", "prompt_file"])
async def test_the_home_cannot_be_a_workspace_or_prompt_file(house: House, name: str) -> None:
    place = house.home.path if name == "working_directory" else house.home.settings_file
    house.settings["agents"]["coder"][name] = str(place)
    async with house.open():
        await house.send("@coder go")
        held = await house.until_event("lane_held")

    assert str(place) in held.payload["reason"]
    assert house.puppet.requests == []
    assert not (house.home.path / "AGENTS.md").exists()


async def test_a_prompt_file_replaced_by_an_outside_link_is_not_read(house: House) -> None:
    house.settings["agents"]["coder"]["prompt_file"] = "role.md"
    role = house.folder / "workspace" / "coder" / "role.md"
    role.parent.mkdir(parents=True)
    role.write_text("Be kind.")
    async with house.open():
        await house.send("@coder go")
        await house.drained()
        role.unlink()
        role.symlink_to(house.home.settings_file)
        await house.send("@coder go")
        held = await house.until_event("lane_held")

    assert "role.md" in held.payload["reason"]
    assert len(house.puppet.requests) == 1


async def test_a_busy_store_uses_no_attempt(house: House) -> None:
    house.settings["limits"]["daily_cost"] = 100
    async with house.open(start=False):
        spending, original, refused = house.store.spending, house.store.spending.of_day, list[str]()

        async def of_day(day: str) -> Mapping[str, Spent]:
            if not refused:
                refused.append(day)
                raise StoreBusy("locked")
            return await original(day)

        spending.of_day = of_day  # type: ignore[method-assign]
        await house.engine.start()
        await house.send("@coder go")
        held = await house.until_event("lane_held")
        await house.drained()
        (message,) = await house.messages()

    assert "locked" in held.payload["reason"]
    assert (message.status, message.retry_count) == (Status.COMPLETED, 0)


async def test_a_refused_request_in_a_run_is_a_failure_of_the_message(house: House) -> None:
    def refused(request: RunRequest) -> str:
        raise NotFound("There is no task task_7.")

    house.puppet.plays["coder"] = in_turn(refused, "fine")
    async with house.open():
        await house.send("@coder go")
        await house.drained()
        (failed,) = await house.events("message_failed")
        assert await house.events("lane_held") == []

    assert failed.payload["reason"] == "the run crashed: NotFound: There is no task task_7."


async def test_an_unexpected_error_in_fail_does_not_block_the_lane(house: House) -> None:
    house.puppet.plays["coder"] = in_turn(failing(reason="half a \ud800 reason"), "fine")
    async with house.open(start=False):
        queue, original, refused = house.store.queue, house.store.queue.fail, list[str]()

        async def fail(*arguments: Any, **keywords: Any) -> None:
            if not refused:
                refused.append("once")
                raise KeyError("a statement that is not there")
            await original(*arguments, **keywords)

        queue.fail = fail  # type: ignore[method-assign]
        await house.engine.start()
        await house.send("@coder go")
        await house.drained()
        (response,) = await house.responses()

    assert refused == ["once"]
    assert response.message == "fine"


class _Refusals:
    def __init__(self) -> None:
        self.count = 0


def _refuse_at_first(house: House, *errors: Exception) -> _Refusals:
    """Wrap the queue's completion: the first calls raise these errors."""
    queue, refused, left = house.store.queue, _Refusals(), list(errors)
    original = queue.complete_and_claim

    async def complete_and_claim(*arguments, **keywords):  # type: ignore[no-untyped-def]
        if left:
            refused.count += 1
            raise left.pop(0)
        await asyncio.sleep(0)
        return await original(*arguments, **keywords)

    queue.complete_and_claim = complete_and_claim  # type: ignore[method-assign]
    return refused
