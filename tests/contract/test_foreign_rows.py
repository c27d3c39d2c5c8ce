"""Rows that other programs insert with only the columns of the original."""

import asyncio
from pathlib import Path

import apsw
import pytest

from tests.contract.conftest import CODER, DEV, TESTER, WRITER
from tests.contract.test_claim import run_all, take
from tests.support.clock import START
from tests.support.log import read_all, types_of
from tinyagi.domain.messages import ROOM_PRIORITY, Status
from tinyagi.domain.responses import Role
from tinyagi.store.store import Store

INSERT = (
    "INSERT INTO messages (message_id, channel, sender, message, agent, status, created_at, updated_at) "
    "VALUES (?, 'telegram', 'Ada', ?, ?, ?, ?, ?)"
)
RESPONSE = (
    "INSERT INTO responses (message_id, channel, sender, message, original_message, agent, created_at) "
    "VALUES (?, 'telegram', 'Ada', 'done', '', ?, 1)"
)


def insert(database: Path, name: str, text: str, agent: str | None = None, status: str = "pending") -> None:
    connection = apsw.Connection(str(database))
    connection.execute(INSERT, (name, text, agent, status, START, START))
    connection.close()


async def wait_for_events(store: Store, count: int) -> None:
    """Wait for adoption, which the store starts in the background."""
    while True:
        seen = store.changes.version
        if len(await store.events.read_after(0)) >= count:
            return
        await asyncio.wait_for(store.changes.beyond(seen), 60)


async def test_a_foreign_row_gets_a_lane_a_conversation_and_events(store: Store, database: Path) -> None:
    insert(database, "tg_1", "@coder fix it")

    await wait_for_events(store, 1)

    claim = await take(store, CODER)
    message = claim.primary
    assert (message.message_id, message.message, message.thread) == ("tg_1", "@coder fix it", "telegram:Ada")
    assert message.conversation_id == "tg_1"
    assert (await types_of(store.events))[0] == "message_received"
    (entry,) = await store.history.of_agent(CODER)
    assert (entry.role, entry.content) == (Role.USER, "@coder fix it")


@pytest.mark.parametrize(
    ("agent", "text", "lane"),
    [
        (None, "hello", WRITER),
        ("tester", "@coder hello", TESTER),
        ("", "@tester hi", TESTER),
        ("../evil", "hello", WRITER),
    ],
)
async def test_the_lane_is_the_agent_column_or_the_prefix_or_the_default(
    store: Store, database: Path, agent: str | None, text: str, lane: str
) -> None:
    insert(database, "tg_1", text, agent)

    await wait_for_events(store, 1)

    (event,) = await read_all(store.events)
    assert event.agent == lane
    depth = await store.queue.depth()
    assert [(lane.agent, lane.pending) for lane in depth.lanes if lane.pending] == [(lane, 1)]


async def test_a_foreign_row_for_a_team_goes_to_its_leader_and_keeps_the_team(store: Store, database: Path) -> None:
    insert(database, "tg_1", "@dev ship it")

    await wait_for_events(store, 1)

    message = (await take(store, CODER)).primary
    assert (message.team, message.conversation_team, message.message) == (DEV, DEV, "@dev ship it")


async def test_a_completed_foreign_row_is_imported_and_not_run(store: Store, database: Path) -> None:
    insert(database, "old_1", "done long ago", "coder", "completed")

    await wait_for_events(store, 1)

    (event,) = await read_all(store.events)
    assert (event.type, event.payload["table"]) == ("row_imported", "messages")
    assert await run_all(store, CODER) == []
    message = await store.queue.message(event.payload["row"]["id"])
    assert message is not None
    assert message.status is Status.COMPLETED


async def test_an_answered_foreign_row_is_not_run_again(store: Store, database: Path) -> None:
    connection = apsw.Connection(str(database))
    with connection:
        connection.execute(INSERT, ("tg_1", "@coder fix it", None, "pending", START, START))
        connection.execute(RESPONSE, ("tg_1", "coder"))
        connection.execute(INSERT, ("tg_2", "@coder fix that", None, "pending", START, START))
        connection.execute(RESPONSE, ("tg_2", "writer"))
    connection.close()

    await wait_for_events(store, 4)

    assert await run_all(store, CODER) == [["@coder fix that"]], "another agent answered it"
    answered = await store.queue.message(1)
    assert answered is not None
    assert (answered.status, answered.answered_by) == (Status.COMPLETED, "tg_1")
    assert (await store.queue.depth()).open_conversations == 0


async def test_a_foreign_row_with_a_passive_priority_is_run(store: Store, database: Path) -> None:
    connection = apsw.Connection(str(database))
    connection.execute(
        "INSERT INTO messages (message_id, channel, sender, message, agent, priority, created_at, updated_at) "
        "VALUES ('low', 'cron', 'nightly', 'tidy up', 'coder', -7, 1, 1)"
    )
    connection.close()

    await wait_for_events(store, 1)

    claim = await take(store, CODER)
    assert (claim.primary.message, claim.primary.priority) == ("tidy up", ROOM_PRIORITY)
    assert (await read_all(store.events))[0].payload["message"]["priority"] == ROOM_PRIORITY


async def test_foreign_responses_and_history_reach_the_log(store: Store, database: Path) -> None:
    connection = apsw.Connection(str(database))
    connection.execute(
        "INSERT INTO responses (message_id, channel, sender, message, original_message, created_at) "
        "VALUES ('m', 'web', 'Ada', 'hi', '', 1)"
    )
    connection.execute(
        "INSERT INTO chat_messages (team_id, from_agent, message, created_at) VALUES ('dev', 'x', 'y', 1)"
    )
    connection.execute(
        "INSERT INTO agent_messages (agent_id, role, channel, sender, message_id, content, created_at) "
        "VALUES ('coder', 'user', 'web', 'Ada', 'm', 'hi', 1)"
    )
    connection.close()

    await wait_for_events(store, 3)

    assert sorted(await types_of(store.events)) == ["chat_posted", "response_ready", "row_imported"]
    assert [response.message for response in await store.responses.pending("web")] == ["hi"]


async def test_many_foreign_rows_are_adopted_in_order(store: Store, database: Path) -> None:
    connection = apsw.Connection(str(database))
    with connection:
        connection.executemany(INSERT, [(f"m{n}", f"t{n}", "coder", "pending", START, START) for n in range(1200)])
    connection.close()

    await wait_for_events(store, 1000)
    await store.queue.adopt()

    assert (await store.queue.depth()).pending == 1200
    assert [message.message for message in (await take(store, CODER)).messages[:3]] == ["t0", "t1", "t2"]


async def test_a_waiting_task_wakes_when_another_process_writes(store: Store, database: Path) -> None:
    seen = store.changes.version
    waiter = asyncio.create_task(store.changes.beyond(seen))

    insert(database, "tg_1", "wake up")

    assert await asyncio.wait_for(waiter, 60) > seen


async def test_counters_are_right_when_other_tools_write(store: Store, database: Path) -> None:
    connection = apsw.Connection(str(database))
    for number, status in enumerate(("pending", "completed", "dead", "dead")):
        connection.execute(INSERT, (f"m{number}", "t", "coder", status, START, START))
    connection.execute("UPDATE messages SET status = 'completed' WHERE message_id = 'm2'")
    connection.execute("UPDATE messages SET agent = 'tester' WHERE message_id = 'm1'")
    connection.execute("DELETE FROM messages WHERE message_id = 'm3'")
    connection.close()

    lanes = {lane.agent: lane for lane in (await store.queue.depth()).lanes}

    assert (lanes["coder"].pending, lanes["coder"].completed, lanes["coder"].dead) == (1, 1, 0)
    assert lanes["tester"].completed == 1
