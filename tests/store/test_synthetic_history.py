"""The history generator of the benchmarks: events of the real queue, the requested number, reproducible."""

import importlib
from collections import Counter
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, Final

import pytest

from tests.support.clock import START
from tests.support.log import Tables, read_all
from tinyagi.domain.events import EVENT_TYPES, RecordedEvent
from tinyagi.store.store import Store

BENCH: Final = Path(__file__).parents[2] / "bench"
DAY_MS: Final = 86_400_000
DAYS: Final = 6
EVENTS: Final = 4000
ORDINARY: Final = {
    "message_received",
    "agent_routed",
    "chain_step_start",
    "chain_step_done",
    "chain_handoff",
    "response_ready",
    "response_acked",
    "message_failed",
    "message_dead",
    "chat_posted",
    "team_chain_start",
    "team_chain_end",
}


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("pipeline_history")


async def _written(history: ModuleType, database: Path, *, seed: int = 7, events: int = EVENTS) -> Any:
    return await history.write_history(database, events=events, seed=seed, end_at=START, days=DAYS)


async def _events(database: Path, after: int = 0) -> list[RecordedEvent]:
    async with await Store.open(database) as store:
        return await read_all(store.events, after)


async def test_a_history_has_the_requested_number_of_events_and_days(history: ModuleType, tmp_path: Path) -> None:
    database = tmp_path / "queue.db"

    written = await _written(history, database)
    events = await _events(database)

    assert written.events == len(events) == events[-1].id == pytest.approx(EVENTS, rel=0.03)
    instants = [event.created_at for event in events]
    assert instants == sorted(instants)
    assert instants[0] == START - DAYS * DAY_MS
    assert instants[-1] == START - 1
    assert {instant // DAY_MS for instant in instants} >= {START // DAY_MS - day for day in range(1, DAYS)}


async def test_a_history_has_every_common_event_in_its_usual_share(history: ModuleType, tmp_path: Path) -> None:
    database = tmp_path / "queue.db"

    written = await _written(history, database, events=4 * EVENTS)
    types = history.count_types(database)
    durations = [event.payload["duration_ms"] for event in await _events(database) if event.type == "chain_step_done"]

    assert types.keys() <= EVENT_TYPES.keys()
    assert types.keys() >= ORDINARY
    assert 5.5 < written.events / written.messages < 6.5
    assert 7 < written.events / types["agent_routed"] < 9
    runs = types["chain_step_start"]
    assert 0.015 < (types["message_failed"] + types["message_dead"]) / runs < 0.06
    assert 0.0005 < types["message_dead"] / runs < 0.01
    assert max(durations) > 5 * median(durations) > 5 * 2_000


async def test_the_events_rebuild_the_tables_of_a_history(history: ModuleType, tmp_path: Path) -> None:
    database = tmp_path / "queue.db"
    await _written(history, database)

    tables = Tables()
    async with await Store.open(database) as store:
        for event in await read_all(store.events):
            tables.apply(event)
        depth = await store.queue.depth()
        lanes = await store.lanes.all()
        rebuilt = Counter(row["status"] for row in tables.messages.values())
        stored = [await store.queue.message(number) for number in tables.messages]

    assert [None if row is None else row._asdict() for row in stored] == list(tables.messages.values())
    assert rebuilt == {"completed": depth.completed, "dead": depth.dead} | (
        {"pending": depth.pending} if depth.pending else {}
    )
    assert [lane.claim_id for lane in lanes] == [None] * len(lanes)


async def test_the_same_seed_writes_the_same_history(history: ModuleType, tmp_path: Path) -> None:
    one, again, other = (tmp_path / name for name in ("one.db", "again.db", "other.db"))

    await _written(history, one, events=1000)
    await _written(history, again, events=1000)
    await _written(history, other, events=1000, seed=8)

    assert await _events(one) == await _events(again)
    assert await _events(one) != await _events(other)


async def test_a_history_is_not_written_over_another(history: ModuleType, tmp_path: Path) -> None:
    database = tmp_path / "queue.db"
    await _written(history, database, events=500)

    with pytest.raises(RuntimeError, match="holds events already"):
        await _written(history, database, events=500)


async def test_an_appended_day_continues_some_old_conversations(history: ModuleType, tmp_path: Path) -> None:
    database = tmp_path / "queue.db"
    await _written(history, database)
    known = {event.conversation_id: event.conversation_started_at for event in await _events(database)}

    today = await history.append_history(database, events=2000, seed=9, old_share=0.1)
    events = await _events(database, today.after)
    old = [event for event in events if event.conversation_id in known.keys() - {None}]

    assert today.events == len(events) == pytest.approx(2000, rel=0.05)
    assert events[0].created_at == today.start_at == START
    assert events[-1].created_at == START + DAY_MS - 1
    assert {event.conversation_started_at == known[event.conversation_id] for event in old} == {True}
    assert today.old_events == len(old) == pytest.approx(200, rel=0.4)
    assert len({event.conversation_started_at for event in old}) > 20
    assert {event.type for event in old} >= {"message_received", "chain_step_start", "chain_step_done"}
