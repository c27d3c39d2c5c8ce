"""Team conversations: the start and the end of a chain are recorded once."""

import asyncio

from tests.contract.conftest import CODER, DEV, TESTER, WRITER
from tests.contract.test_claim import say, take
from tests.support.log import read_all
from tinyagi.domain.events import RecordedEvent, TeamChainStart
from tinyagi.domain.ids import TeamId
from tinyagi.domain.messages import NewMessage
from tinyagi.domain.runs import Handoff, Outcome
from tinyagi.store.store import Store

CHAIN = TeamChainStart(DEV, (CODER, TESTER), CODER)
ON = Outcome("ok", handoffs=(Handoff(TESTER, "test", DEV),), chain=CHAIN)


async def events_of_type(store: Store, event_type: str) -> list[RecordedEvent]:
    return [event for event in await read_all(store.events) if event.type == event_type]


async def test_a_conversation_gets_its_team_with_its_first_chain(store: Store) -> None:
    await say(store, "go")

    (handed,) = await store.queue.complete(await take(store), ON)

    (start,) = await events_of_type(store, "team_chain_start")
    assert start.payload == {"team_id": DEV, "agents": [CODER, TESTER], "leader": CODER}
    assert start.conversation_id == handed.conversation_id
    (done,) = await events_of_type(store, "chain_step_done")
    assert done.payload["team_id"] == DEV
    assert handed.conversation_team == DEV


async def test_a_chain_starts_once_per_conversation(store: Store) -> None:
    await say(store, "go")
    await store.queue.complete(await take(store), ON)
    other = TeamChainStart(TeamId("ops"), (TESTER,), TESTER)

    await store.queue.complete(await take(store, TESTER), Outcome("done", chain=other))

    assert len(await events_of_type(store, "team_chain_start")) == 1
    (end,) = await events_of_type(store, "team_chain_end")
    assert end.payload == {"team_id": DEV, "total_steps": 2}


async def test_parts_completed_together_start_one_chain(store: Store) -> None:
    await store.queue.enqueue_parts([NewMessage("a", CODER), NewMessage("b", WRITER)])
    claims = [await take(store, agent) for agent in (CODER, WRITER)]

    await asyncio.gather(*(store.queue.complete(claim, ON) for claim in claims))

    assert len(await events_of_type(store, "team_chain_start")) == 1
    assert [done.payload["team_id"] for done in await events_of_type(store, "chain_step_done")] == [DEV, DEV]
    assert len(await events_of_type(store, "team_chain_end")) == 0


async def test_a_hand_off_after_the_chain_start_has_the_team(store: Store) -> None:
    await store.queue.enqueue_parts([NewMessage("a", CODER), NewMessage("b", WRITER)])
    claims = [await take(store, agent) for agent in (CODER, WRITER)]

    (before,), (after,) = await asyncio.gather(
        store.queue.complete(claims[0], ON._replace(chain=None)), store.queue.complete(claims[1], ON)
    )

    assert (before.conversation_team, after.conversation_team) == (None, DEV)
    received = {event.message_id: event.payload["message"] for event in await events_of_type(store, "message_received")}
    assert received[after.message_id]["conversation_team"] == DEV


async def test_parts_belong_to_their_first_team(store: Store) -> None:
    parts = [NewMessage("a", WRITER), NewMessage("b", CODER, team=DEV), NewMessage("c", TESTER, team=TeamId("ops"))]

    stored = await store.queue.enqueue_parts(parts)

    assert [part.team for part in stored] == [None, DEV, "ops"]
    assert [part.conversation_team for part in stored] == [DEV] * 3
    for agent in (WRITER, CODER, TESTER):
        await store.queue.complete(await take(store, agent), Outcome("done"))
    (end,) = await events_of_type(store, "team_chain_end")
    assert end.payload == {"team_id": DEV, "total_steps": 3}


async def test_a_conversation_with_a_team_starts_no_other_chain(store: Store) -> None:
    await say(store, "go", team=DEV)

    await store.queue.complete(await take(store), ON)

    assert await events_of_type(store, "team_chain_start") == []


async def test_a_run_claimed_before_the_chain_start_records_the_end(store: Store) -> None:
    await store.queue.enqueue_parts([NewMessage("a", CODER), NewMessage("b", WRITER)])
    early = await take(store, WRITER)
    await store.queue.complete(await take(store, CODER), Outcome("ok", chain=CHAIN))
    assert early.primary.conversation_team is None

    await store.queue.complete(early, Outcome("last"))

    (end,) = await events_of_type(store, "team_chain_end")
    assert end.payload == {"team_id": DEV, "total_steps": 2}
    assert (await events_of_type(store, "chain_step_done"))[-1].payload["team_id"] == DEV


async def test_a_stopped_message_records_the_end(store: Store) -> None:
    await store.queue.enqueue_parts([NewMessage("a", CODER), NewMessage("b", WRITER)])
    early = await take(store, WRITER)
    await store.queue.complete(await take(store, CODER), Outcome("ok", chain=CHAIN))

    await store.queue.stop(early, by="Ada")

    assert len(await events_of_type(store, "team_chain_end")) == 1


async def test_messages_completed_together_record_the_end_once(store: Store) -> None:
    await store.queue.enqueue_parts(
        [NewMessage("a", CODER, channel="web", team=DEV), NewMessage("b", CODER, channel="web", team=DEV)]
    )

    await store.queue.complete(await take(store), Outcome("both"))

    assert len(await events_of_type(store, "team_chain_end")) == 1


async def test_a_conversation_without_a_team_records_no_end(store: Store) -> None:
    await say(store, "go")

    await store.queue.complete(await take(store), Outcome("done"))

    assert await events_of_type(store, "team_chain_end") == []
    (done,) = await events_of_type(store, "chain_step_done")
    assert done.payload["team_id"] is None
