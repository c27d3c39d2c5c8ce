"""Whose a conversation is: it becomes a team's once, and its end is told once, whoever closes it."""

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


async def told(store: Store, event_type: str) -> list[RecordedEvent]:
    return [event for event in await read_all(store.events) if event.type == event_type]


async def test_a_conversation_becomes_the_teams_with_its_first_chain(store: Store) -> None:
    await say(store, "go")

    (handed,) = await store.queue.complete(await take(store), ON)

    (start,) = await told(store, "team_chain_start")
    assert start.payload == {"team_id": DEV, "agents": [CODER, TESTER], "leader": CODER}
    assert start.conversation_id == handed.conversation_id
    (done,) = await told(store, "chain_step_done")
    assert done.payload["team_id"] == DEV
    assert handed.conversation_team == DEV


async def test_a_chain_starts_once_per_conversation(store: Store) -> None:
    await say(store, "go")
    await store.queue.complete(await take(store), ON)
    other = TeamChainStart(TeamId("ops"), (TESTER,), TESTER)

    await store.queue.complete(await take(store, TESTER), Outcome("done", chain=other))

    assert len(await told(store, "team_chain_start")) == 1
    (end,) = await told(store, "team_chain_end")
    assert end.payload == {"team_id": DEV, "total_steps": 2}


async def test_parts_that_end_together_start_one_chain(store: Store) -> None:
    await store.queue.enqueue_parts([NewMessage("a", CODER), NewMessage("b", WRITER)])
    claims = [await take(store, agent) for agent in (CODER, WRITER)]

    await asyncio.gather(*(store.queue.complete(claim, ON) for claim in claims))

    assert len(await told(store, "team_chain_start")) == 1
    assert [done.payload["team_id"] for done in await told(store, "chain_step_done")] == [DEV, DEV]
    assert len(await told(store, "team_chain_end")) == 0


async def test_what_is_handed_on_after_the_chain_started_knows_its_team(store: Store) -> None:
    await store.queue.enqueue_parts([NewMessage("a", CODER), NewMessage("b", WRITER)])
    claims = [await take(store, agent) for agent in (CODER, WRITER)]

    (before,), (after,) = await asyncio.gather(
        store.queue.complete(claims[0], ON._replace(chain=None)), store.queue.complete(claims[1], ON)
    )

    assert (before.conversation_team, after.conversation_team) == (None, DEV)
    received = {event.message_id: event.payload["message"] for event in await told(store, "message_received")}
    assert received[after.message_id]["conversation_team"] == DEV


async def test_parts_belong_to_the_first_team_among_them(store: Store) -> None:
    parts = [NewMessage("a", WRITER), NewMessage("b", CODER, team=DEV), NewMessage("c", TESTER, team=TeamId("ops"))]

    stored = await store.queue.enqueue_parts(parts)

    assert [part.team for part in stored] == [None, DEV, "ops"]
    assert [part.conversation_team for part in stored] == [DEV] * 3
    for agent in (WRITER, CODER, TESTER):
        await store.queue.complete(await take(store, agent), Outcome("done"))
    (end,) = await told(store, "team_chain_end")
    assert end.payload == {"team_id": DEV, "total_steps": 3}


async def test_a_conversation_that_has_a_team_from_the_start_gets_no_other_chain(store: Store) -> None:
    await say(store, "go", team=DEV)

    await store.queue.complete(await take(store), ON)

    assert await told(store, "team_chain_start") == []


async def test_the_end_is_told_by_a_run_that_was_claimed_before_the_team_was_known(store: Store) -> None:
    await store.queue.enqueue_parts([NewMessage("a", CODER), NewMessage("b", WRITER)])
    early = await take(store, WRITER)
    await store.queue.complete(await take(store, CODER), Outcome("ok", chain=CHAIN))
    assert early.primary.conversation_team is None

    await store.queue.complete(early, Outcome("last"))

    (end,) = await told(store, "team_chain_end")
    assert end.payload == {"team_id": DEV, "total_steps": 2}
    assert (await told(store, "chain_step_done"))[-1].payload["team_id"] == DEV


async def test_the_end_is_told_by_a_message_that_dies(store: Store) -> None:
    await store.queue.enqueue_parts([NewMessage("a", CODER), NewMessage("b", WRITER)])
    early = await take(store, WRITER)
    await store.queue.complete(await take(store, CODER), Outcome("ok", chain=CHAIN))

    await store.queue.stop(early, by="Ada")

    assert len(await told(store, "team_chain_end")) == 1


async def test_the_end_is_told_once_for_messages_that_close_together(store: Store) -> None:
    await store.queue.enqueue_parts(
        [NewMessage("a", CODER, channel="web", team=DEV), NewMessage("b", CODER, channel="web", team=DEV)]
    )

    await store.queue.complete(await take(store), Outcome("both"))

    assert len(await told(store, "team_chain_end")) == 1


async def test_a_conversation_without_a_team_ends_silently(store: Store) -> None:
    await say(store, "go")

    await store.queue.complete(await take(store), Outcome("done"))

    assert await told(store, "team_chain_end") == []
    (done,) = await told(store, "chain_step_done")
    assert done.payload["team_id"] is None
