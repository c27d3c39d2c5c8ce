"""A page ends with the row that fills it, even below `limit`, and the next page continues after it."""

from typing import Any

import pytest

from tests.server.conftest import Premises
from tests.server.test_queue_routes import a_dead_message
from tests.server.test_read_through import archive
from tinyagi.domain.ids import AgentId
from tinyagi.store import readers

TEXT = "x" * 30_000
COUNT = 12


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "PAGE_CHARACTERS", 100_000)


async def read(premises: Premises, path: str, **query: Any) -> list[dict[str, Any]]:
    answer = await premises.http.get(path, params={"limit": 1_000, **query})
    assert answer.status_code == 200, answer.text
    rows: list[dict[str, Any]] = answer.json()
    return rows


async def talk(premises: Premises) -> None:
    for number in range(COUNT):
        await premises.send(f"@coder {number} {TEXT}", channel="web", sender="Ada")
    await premises.drained()


async def test_a_list_ends_with_the_row_that_fills_the_page(premises: Premises) -> None:
    for number in range(COUNT):
        response = {"channel": "telegram", "sender": "Ada", "message": f"{number} {TEXT}"}
        assert (await premises.http.post("/api/responses", json=response)).status_code == 200

    newest = await read(premises, "/api/responses")
    waiting = await read(premises, "/api/responses/pending", channel="telegram")

    assert [row["message"].split()[0] for row in newest] == ["11", "10", "9", "8"]
    assert [row["message"].split()[0] for row in waiting] == ["0", "1", "2", "3"]


async def test_a_row_larger_than_a_page_fills_one_page(premises: Premises) -> None:
    response = {"channel": "telegram", "sender": "Ada", "message": "x" * 200_000}
    for _ in range(2):
        await premises.http.post("/api/responses", json=response)

    assert len(await read(premises, "/api/responses")) == 1


async def test_paging_reads_the_whole_history(premises: Premises) -> None:
    await talk(premises)
    for path in ("/api/agents/coder/messages", "/api/agent-messages"):
        seen: list[int] = []
        while page := await read(premises, path, **({"before_id": seen[-1]} if seen else {})):
            assert sum(len(line["content"]) for line in page) < 140_000
            seen += [line["id"] for line in page]
        assert seen == sorted(set(seen), reverse=True)
        assert len(seen) == 2 * COUNT


async def test_paging_reads_a_history_that_continues_in_the_lake(premises: Premises) -> None:
    await talk(premises)
    await archive(premises)
    seen: list[int] = []
    while page := await read(premises, "/api/agents/coder/messages", **({"before_id": seen[-1]} if seen else {})):
        assert sum(len(line["content"]) for line in page) < 140_000
        seen += [line["id"] for line in page]

    assert len(seen) == len(set(seen)) == 2 * COUNT


@pytest.mark.parametrize("query", [{}, {"type": "message_received"}])
async def test_paging_reads_the_whole_log(premises: Premises, query: dict[str, str]) -> None:
    await talk(premises)
    expected = [event.id for event in await premises.events(*query.values())]
    seen: list[int] = []
    sizes = []
    while page := await read(premises, "/api/events", after=seen[-1] if seen else 0, **query):
        sizes.append(len(page))
        seen += [event["id"] for event in page]

    assert seen == expected
    assert len(sizes) > 2


async def test_pages_of_dead_messages_and_conversations_are_bounded(premises: Premises) -> None:
    for path in ("/api/queue/dead", "/api/conversations"):
        assert await read(premises, path) == []
    await a_dead_message(premises, TEXT)
    for number in range(COUNT):
        await premises.send(f"@coder {number} {TEXT}", channel="web", sender=f"person {number}")
    await premises.drained()

    for path in ("/api/queue/dead", "/api/conversations"):
        assert len(await read(premises, path)) == 4, path


async def test_pages_of_waiting_messages_are_bounded(premises: Premises) -> None:
    await premises.store.lanes.pause(AgentId("coder"))
    for number in range(COUNT):
        await premises.send(f"@coder {number} {TEXT}", channel="web", sender="Ada")

    assert len(await read(premises, "/api/queue/processing")) == 4
    listed = await read(premises, "/api/queue/messages")
    assert len(listed) == COUNT, "only the beginning of each text is read"
    assert {len(one["message"]) for one in listed} == {500}
