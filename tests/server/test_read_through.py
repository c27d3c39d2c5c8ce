"""Pages and traces over HTTP that start in the store and continue in the lake."""

import contextlib
from datetime import timedelta
from typing import Any

import apsw

from tests.server.conftest import Premises
from tests.support.lakes import write_lake
from tests.support.log import read_all
from tests.support.puppet import in_turn
from tests.support.silver import silver_rows
from tinyagi.domain.limits import Retention
from tinyagi.engine.chat_files import CONSUMER

AT_ONCE = timedelta(seconds=-1)


async def archive(premises: Premises) -> None:
    """Write the lake as the pipeline does after it has read every event."""
    events = await read_all(premises.store.events)
    write_lake(premises.home.lake, silver_rows(events), through_id=events[-1].id)
    await premises.store.events.acknowledge("lake", events[-1].id)


async def prune(premises: Premises) -> None:
    """Prune everything the store may prune, and delete the older half of the history and room lines."""
    # The writer of chat files would hold back the pruning; this test does not wait for it.
    await premises.store.events.detach(CONSUMER)
    report = await premises.store.queue.prune(Retention(completed=AT_ONCE, acked=AT_ONCE, events=AT_ONCE))
    assert report.messages
    assert report.events
    # The store's own SQLite: a second one in this process would drop the store's file locks when it closes.
    with contextlib.closing(apsw.Connection(str(premises.home.database))) as database:
        database.set_busy_timeout(5_000)
        for statement in (
            "DELETE FROM agent_messages WHERE id <= (SELECT avg(id) FROM agent_messages)",
            "DELETE FROM chat_messages WHERE id <= (SELECT avg(id) FROM chat_messages)",
        ):
            database.execute(statement)
            assert database.changes()


async def read(premises: Premises, path: str, **query: int) -> Any:
    answer = await premises.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_pruned_rows_are_read_from_the_lake(premises: Premises) -> None:
    premises.puppet.plays["coder"] = in_turn("[@tester: look] [#dev: it is built]", "again", "and again")
    for text in ("build it", "more", "and more"):
        await premises.send(f"@dev {text}", channel="web", sender="Ada")
        await premises.drained()
    conversations = await read(premises, "/api/conversations")
    addresses = (
        *(f"/api/traces/{one['id']}" for one in conversations),
        *("/api/conversations", "/api/agents/coder/messages", "/api/agent-messages", "/api/chatroom/dev"),
        *("/api/agents/tester/messages", "/api/agents/tester/messages?internal=true"),
    )
    before = {address: await read(premises, address) for address in addresses}
    assert any(span["children"] for address in before if "traces" in address for span in before[address]["spans"])

    await archive(premises)
    await prune(premises)

    assert await premises.store.traces.recent() == ()
    assert {address: await read(premises, address) for address in addresses} == before
    ids = [line["id"] for line in before["/api/agent-messages"]]
    pages = [await read(premises, "/api/agent-messages", before_id=above, limit=2) for above in ids[1:]]
    assert [[line["id"] for line in page] for page in pages] == [ids[n : n + 2] for n in range(2, len(ids) + 1)]


async def test_a_conversation_in_neither_store_nor_lake_is_not_found(premises: Premises) -> None:
    await premises.send("@coder hello")
    await premises.drained()
    await archive(premises)

    answer = await premises.http.get("/api/traces/nothing")

    assert answer.status_code == 404
    assert answer.json()["error"].startswith("There is no conversation 'nothing'.")


async def test_the_store_is_readable_with_a_damaged_lake(premises: Premises) -> None:
    sent = await premises.send("@coder hello")
    await premises.drained()
    await archive(premises)
    for file in premises.home.lake.rglob("*.parquet"):
        file.write_bytes(b"no parquet")

    assert (await read(premises, f"/api/traces/{sent.message_id}"))["messages"] == 1
    assert len(await read(premises, "/api/agent-messages", limit=2)) == 2
    refused = await premises.http.get("/api/agent-messages")
    assert refused.status_code == 503
    assert "tinyagi pipeline verify" in refused.json()["error"]
