"""Sessions: stored by a successful run, resumed by id, lost with an event, reset by a person."""

from pathlib import Path

import pytest

from tests.engine.conftest import House
from tests.support.puppet import Gate, failing, in_turn
from tinyagi.domain.ids import AgentId
from tinyagi.domain.limits import Usage
from tinyagi.domain.responses import Role
from tinyagi.domain.runs import Turn
from tinyagi.providers.base import RunRequest, RunResult

CODER = AgentId("coder")


def counting(request: RunRequest) -> RunResult:
    number = int((request.session_id or "s-0").removeprefix("s-")) + 1
    return RunResult("ok", Usage(), session_id=f"s-{number}")


async def test_the_session_of_a_run_is_resumed_by_the_next(house: House) -> None:
    house.puppet.plays["coder"] = counting
    async with house.open():
        for sender in ("Ada", "Grace", "Ada"):
            await house.send("@coder go", sender=sender)
        await house.drained()

    assert [request.session_id for request in house.puppet.requests] == [None, "s-1", "s-2"]


async def test_session_scope_thread_keeps_people_apart(house: House) -> None:
    house.settings["agents"]["coder"]["session_scope"] = "thread"
    house.puppet.plays["coder"] = counting
    async with house.open():
        for sender in ("Ada", "Grace", "Ada"):
            await house.send("@coder go", sender=sender)
        await house.drained()

    assert [request.session_id for request in house.puppet.requests] == [None, None, "s-1"]


async def test_a_failed_run_keeps_the_stored_session(house: House) -> None:
    house.puppet.plays["coder"] = in_turn(counting, failing(), counting)
    async with house.open():
        await house.send("@coder first")
        await house.send("@coder second")
        await house.drained()

    assert [request.session_id for request in house.puppet.requests] == [None, "s-1", "s-1"]


async def test_a_lost_session_is_recorded(house: House) -> None:
    def forgetful(request: RunRequest) -> RunResult:
        return RunResult("ok", Usage(), session_id="new", lost_session=request.session_id is not None)

    house.puppet.plays["coder"] = forgetful
    async with house.open():
        await house.send("@coder first")
        await house.send("@coder second")
        await house.drained()

        (lost,) = await house.events("session_lost")

    assert (lost.agent, lost.payload["session_id"]) == ("coder", "new")


async def test_a_reset_during_a_run_starts_a_new_session(house: House) -> None:
    gate = Gate()

    async def gated(request: RunRequest) -> RunResult:
        await gate(request)
        return counting(request)

    house.puppet.plays["coder"] = in_turn(counting, gated, counting)
    async with house.open():
        await house.send("@coder first")
        await house.drained()
        await house.send("@coder second")
        await gate.reached.wait()
        await house.engine.reset(CODER, by="Ada")
        gate.open.set()
        await house.drained()
        await house.send("@coder third")
        await house.drained()

        (reset,) = await house.events("session_reset")

    assert [request.session_id for request in house.puppet.requests] == [None, "s-1", None]
    assert (reset.agent, reset.payload["by"]) == ("coder", "Ada")


async def test_a_reset_flag_in_the_workspace_starts_a_new_session(house: House) -> None:
    house.puppet.plays["coder"] = counting
    async with house.open():
        await house.send("@coder first")
        await house.drained()
        flag = Path(house.puppet.requests[0].workspace) / "reset_flag"
        flag.touch()
        await house.send("@coder second")
        await house.drained()
        await house.send("@coder third")
        await house.drained()

    assert [request.session_id for request in house.puppet.requests] == [None, None, "s-1"]
    assert not flag.exists()


@pytest.mark.parametrize("adapter", ["api", "scripted"])
@pytest.mark.parametrize("keeps_sessions", [True, False])
async def test_a_provider_resumes_a_session_or_gets_the_turns_of_the_thread(
    adapter: str, keeps_sessions: bool, house: House
) -> None:
    """Both are stored, so that only the provider's own fact decides."""

    def remembering(request: RunRequest) -> RunResult:
        if "session" in request.prompt:
            return RunResult("ok", Usage(), session_id="s-1")
        return RunResult("ok", Usage(), turns=(Turn(Role.USER, request.prompt), Turn(Role.ASSISTANT, "ok")))

    house.settings["agents"]["coder"]["provider"] = adapter
    house.puppet.keeps_sessions = keeps_sessions
    house.puppet.plays["coder"] = remembering
    async with house.open():
        await house.send("@coder leave a session", sender="Grace")
        await house.send("@coder I am Ada", sender="Ada")
        await house.send("@coder who am I?", sender="Ada")
        await house.drained()

    last = house.puppet.requests[2]
    turns = [turn.content for turn in last.turns]
    assert (last.session_id, turns) == (("s-1", []) if keeps_sessions else (None, ["I am Ada", "ok"]))
