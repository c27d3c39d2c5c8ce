"""The event stream over HTTP: the first frame, cursors, filters, resets and the end."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.engine.conftest import settled
from tests.server.conftest import Premises
from tests.server.event_source import listening
from tests.server.station import Station, station
from tinyagi.domain.events import LanePaused
from tinyagi.domain.ids import AgentId
from tinyagi.domain.limits import Retention
from tinyagi.domain.runs import Outcome

SOON = timedelta(milliseconds=20)


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Station]:
    async with station(tmp_path) as opened:
        yield opened


async def prune_all(place: Station) -> None:
    await place.store.queue.prune(Retention(events=timedelta(seconds=-10)))


async def test_a_reader_without_a_cursor_starts_at_the_head(place: Station) -> None:
    await place.send(3)

    async with listening(place.port) as source:
        first = await source.next()
        await place.send()
        alias, canonical = await source.next(), await source.next()

    assert (first.event, first.id, first.data["head"]) == ("connected", 3, 3)
    assert (alias.event, alias.id) == ("message:incoming", None)
    assert (canonical.event, canonical.id, canonical.data["message"]) == ("message_received", 4, "hello 0")
    assert source.headers["content-type"] == "text/event-stream"
    assert source.headers["cache-control"] == "no-store"
    assert source.headers["x-accel-buffering"] == "no"
    assert source.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(("query", "last_id"), [("after=2", None), ("after=0", 2), ("", 2)])
async def test_a_reconnecting_reader_gets_the_missed_events(place: Station, query: str, last_id: int | None) -> None:
    await place.send(4)

    async with place.reader(query, last_id=last_id) as source:
        assert source.last_id == 2
        seen = await source.canonical(2)

    assert [event.id for event in seen] == [3, 4]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("types=lane_paused", ["lane_paused"]),
        ("types=agent:invoke,lane_paused", ["agent:invoke", "chain_step_start", "lane_paused"]),
        ("types=chain_step_start&names=canonical", ["chain_step_start"]),
        ("agent=writer", ["message:incoming", "message_received"]),
        ("agent=writer&types=lane_paused", []),
        ("unheard=of&names=canonical&agent=coder", ["message_received", "chain_step_start", "lane_paused"]),
    ],
)
async def test_a_reader_gets_only_the_events_it_asked_for(place: Station, query: str, names: list[str]) -> None:
    await place.send(agent="coder")
    await place.send(agent="writer")
    await place.store.queue.claim(AgentId("coder"))
    await place.store.events.append(LanePaused(), agent=AgentId("coder"))

    async with place.reader(f"{query}&after=0") as source:
        seen = [(await source.next()).event for _ in names]
        place.hub._keep_alive_all(tuple(place.hub._readers))
        rest = await source.next()

    assert seen == names
    assert (rest.event, rest.id) == (None, 4), "and nothing else: the keep-alive is next"


async def test_a_reader_can_follow_one_conversation(place: Station) -> None:
    _, second = await place.send(2)

    async with place.reader(f"after=0&conversation={second.conversation_id}") as source:
        alias = await source.next()

    assert alias.data["conversationId"] == second.conversation_id


@pytest.mark.parametrize(
    ("query", "last_id", "word"),
    [
        ("after=x", None, "after"),
        ("after=-1", None, "after"),
        ("after=99999999999999999999", None, "after"),
        ("", "1.5", "Last-Event-ID"),
        ("after=1", "x", "Last-Event-ID"),
        ("types=lane_paused,moon_landed", None, "moon_landed"),
        ("names=all", None, "names"),
    ],
)
async def test_an_invalid_query_is_refused(place: Station, query: str, last_id: str | None, word: str) -> None:
    async with listening(place.port, query, last_id=last_id) as source:
        assert source.status == 400
        assert word in (await source.body())["error"]
    assert place.hub.readers == 0


async def test_the_number_of_readers_is_limited(tmp_path: Path) -> None:
    async with station(tmp_path, max_readers=1) as place, place.reader(), listening(place.port) as second:
        assert second.status == 503
        assert "server.max_streams" in (await second.body())["error"]
        assert second.headers["retry-after"] == "30"


async def test_a_reader_below_the_pruned_floor_is_reset_once(place: Station) -> None:
    await place.send(5)
    await prune_all(place)
    await place.send(2)

    async with place.reader("names=canonical", last_id=2) as source:
        gap, sixth, seventh = [await source.next() for _ in range(3)]
    async with place.reader("names=canonical", last_id=gap.id) as again:
        resumed = await again.next()

    assert (gap.event, gap.id, gap.data["oldest"], gap.data["reason"]) == ("reset", 5, 6, "pruned")
    assert [sixth.id, seventh.id] == [6, 7]
    assert resumed.event == "message_received"


async def test_a_reader_of_a_fully_pruned_log_gets_new_events(place: Station) -> None:
    await place.send(5)
    await prune_all(place)

    async with place.reader("names=canonical", last_id=2) as source:
        gap = await source.next()
        await place.send()
        after = await source.next()

    assert (gap.event, gap.id, after.id) == ("reset", 5, 6)


async def test_a_reader_at_the_head_of_a_pruned_log_has_missed_nothing(place: Station) -> None:
    await place.send(5)
    await prune_all(place)

    async with place.reader("names=canonical", last_id=5) as source:
        await place.send()
        assert (await source.next()).event == "message_received"


async def test_a_connected_reader_is_reset_when_unsent_events_are_pruned(place: Station) -> None:
    async with place.reader("names=canonical") as source:
        place.store.events.failures = 1_000_000
        await place.send(5)
        await place.store.events.failed.wait()
        await prune_all(place)
        place.store.events.failures = 0
        await place.send()
        gap, after = await source.next(), await source.next()

    assert (gap.event, gap.id, after.id) == ("reset", 5, 6)


async def test_a_reader_ahead_of_the_log_is_reset_to_its_head(place: Station) -> None:
    await place.send(3)

    async with listening(place.port, "names=canonical", last_id=1000) as source:
        first, gap = await source.next(), await source.next()
        await place.send()
        after = await source.next()

    assert (first.event, first.id) == ("connected", None)
    assert (gap.event, gap.id, gap.data["reason"]) == ("reset", 3, "replaced")
    assert after.id == 4


async def test_a_keep_alive_moves_the_cursor_of_a_filter_without_matches(tmp_path: Path) -> None:
    async with station(tmp_path, keep_alive=SOON) as place:
        async with place.reader("types=lane_paused") as source:
            await place.send(600)
            while (await source.next()).id != 600:
                pass
        async with place.reader("types=lane_paused", last_id=source.last_id) as again:
            await place.store.events.append(LanePaused())
            paused = await again.until("lane_paused")

    assert source.last_id == 600
    assert paused.id == 601


async def test_live_text_reaches_readers_with_a_matching_filter(place: Station) -> None:
    async with place.reader("agent=writer") as other, place.reader("types=agent:progress") as source:
        place.say("thinking")
        alias, canonical = await source.next(), await source.next()
        place.say("for the other", agent="writer")
        frame = await other.next()

    assert [alias.event, canonical.event] == ["agent:progress", "agent_progress"]
    assert (canonical.id, canonical.data["text"]) == (None, "thinking")
    assert frame.data["text"] == "for the other"


async def test_live_text_comes_before_the_end_of_its_run(place: Station) -> None:
    await place.send()
    claim = await place.store.queue.claim(AgentId("coder"))
    assert claim is not None

    async with place.reader("types=agent_progress,chain_step_done&names=canonical") as source:
        place.say("the last words")
        await place.store.queue.complete(claim, Outcome("done"))
        seen = [(await source.next()).event for _ in range(2)]

    assert seen == ["agent_progress", "chain_step_done"]


async def test_live_text_comes_between_the_start_and_the_end_of_its_run(place: Station) -> None:
    await place.send()
    types = "types=chain_step_start,agent_progress,chain_step_done&names=canonical"
    async with place.reader(types) as early, place.reader(types) as late:
        # A whole run passes while the log cannot be read.
        place.store.events.failures = 1_000_000
        claim = await place.store.queue.claim(AgentId("coder"))
        assert claim is not None
        place.say("thinking", claim=claim)
        await place.store.events.failed.wait()
        await place.store.queue.complete(claim, Outcome("done"))
        place.store.events.failures = 0
        seen = [[(await source.next()).event for _ in range(3)] for source in (early, late)]

    assert seen == [["chain_step_start", "agent_progress", "chain_step_done"]] * 2


async def test_frames_of_a_run_name_the_agent(place: Station) -> None:
    place.names["coder"] = "Code Assistant"
    await place.send()
    async with place.reader("types=chain_step_start,chain_step_done") as source:
        claim = await place.store.queue.claim(AgentId("coder"))
        assert claim is not None
        await place.store.queue.complete(claim, Outcome("done"))
        frames = [await source.next() for _ in range(4)]

    assert {(frame.data["agentId"], frame.data["agentName"]) for frame in frames} == {("coder", "Code Assistant")}


async def test_frames_use_the_agent_names_of_the_settings(premises: Premises) -> None:
    async with listening(premises.port) as source:
        await source.until("connected")
        await premises.send("@coder hello")

        assert (await source.until("agent:invoke")).data["agentName"] == "Coder"


async def test_a_disconnected_reader_is_removed(place: Station) -> None:
    async with place.reader() as source:
        assert place.hub.readers == 1
        source.close()
        await settled(lambda: place.hub.readers == 0)
    assert place.hub.dropped == 0


async def test_every_stream_ends_cleanly_when_the_hub_stops(place: Station) -> None:
    async with AsyncExitStack() as stack:
        sources = [await stack.enter_async_context(place.reader()) for _ in range(3)]
        await place.hub.stop()
        for source in sources:
            with pytest.raises(EOFError):
                await source.next()

        assert all(source.has_ended for source in sources)
        assert place.hub.readers == 0
    async with listening(place.port) as late:
        assert late.status == 503


async def test_live_text_is_not_repeated_to_a_later_reader(place: Station) -> None:
    await place.send()
    types = "types=chain_step_start,agent_progress,chain_step_done&names=canonical"
    async with place.reader(types) as early:
        place.store.events.failures = 1_000_000
        claim = await place.store.queue.claim(AgentId("coder"))
        assert claim is not None
        place.say("thinking", claim=claim)
        await place.store.events.failed.wait()
        await place.store.queue.complete(claim, Outcome("done"))
        place.store.events.failures = 0
        assert [(await early.next()).event for _ in range(3)][1] == "agent_progress"
        async with place.reader(f"{types}&after=1") as late:
            seen = [(await late.next()).event for _ in range(2)]

    assert seen == ["chain_step_start", "chain_step_done"]
