"""The hub: every reader gets every event once and in order, despite reconnects, stuck readers and log errors."""

import asyncio
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.engine.conftest import settled
from tests.server.event_source import EventSource, Seen, listening
from tests.server.sample_events import recorded
from tests.server.station import Station, station
from tinyagi.domain.events import SettingsRejected
from tinyagi.server.event_frames import BATCH_BYTES, PAGE, Batch, BatchCache, EventFilter
from tinyagi.server.event_hub import LoopShare

EVENTS = 5_000


async def feed(place: Station, count: int) -> None:
    """Write `count` events in small batches, so that readers and writer run side by side."""
    for _ in range(count // 50):
        await place.send(30, "coder")
        await place.send(20, "writer")


async def read_with_breaks(place: Station, query: str, last: int, breaks: int) -> list[Seen]:
    """Read up to the id `last`, and drop the connection `breaks` times in the middle of a transfer."""
    seen: list[Seen] = []
    last_id: int | None = 0
    for piece in range(1, breaks + 2):
        until = last if piece > breaks else last * piece // (breaks + 1)
        async with listening(place.port, query, last_id=last_id) as source:
            async for frame in source.frames():
                if frame.event not in {None, "connected"}:
                    seen.append(frame)
                if (source.last_id or 0) >= until:
                    break
        last_id = source.last_id
    return seen


async def test_an_unexpected_error_ends_no_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tinyagi.engine.background.FIRST_PAUSE", timedelta(milliseconds=10))
    async with station(tmp_path) as place, place.reader() as source:
        place.store.events.error = ZeroDivisionError("thrown by the test")
        place.store.events.failures = 1
        await place.send(2)
        await place.store.events.failed.wait()

        frames = [await source.next() for _ in range(4)]

        assert {frame.id for frame in frames if frame.id is not None} == {1, 2}
        state = place.background.states["stream"]
        assert (state.failing, state.restarts) == (False, 1)
        assert state.last_error == "ZeroDivisionError: thrown by the test"


@pytest.mark.parametrize("query", ["", "names=canonical", "agent=writer&types=message:incoming"])
async def test_a_reader_that_reconnects_ten_times_sees_each_event_once_and_in_order(tmp_path: Path, query: str) -> None:
    async with station(tmp_path, keep_alive=timedelta(milliseconds=50)) as place:
        feeding = asyncio.create_task(feed(place, EVENTS))
        seen = await read_with_breaks(place, query, EVENTS, breaks=10)
        await feeding
        wanted = range(1, EVENTS + 1)
        if "writer" in query:
            wanted_by_writer = [number for number in wanted if (number - 1) % 50 >= 30]
            assert [frame.id for frame in seen if frame.id is not None] == wanted_by_writer
        else:
            assert [frame.id for frame in seen if frame.id is not None] == list(wanted)

    if "canonical" not in query:
        # An alias may come twice, when the connection broke between it and its event. It is never missing.
        places = {id(frame): place for place, frame in enumerate(seen)}
        for frame in seen:
            if frame.id is not None:
                before = seen[places[id(frame)] - 1]
                assert (before.event, before.data["messageId"]) == ("message:incoming", frame.data["messageId"])


async def test_a_stuck_reader_is_dropped_without_affecting_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        station(tmp_path) as place,
        place.reader("names=canonical") as good,
        place.reader(window=1024) as stuck,
    ):
        reading = asyncio.create_task(good.canonical(EVENTS))
        await feed(place, EVENTS)
        # And more, until the socket buffers between the hub and the stuck reader are full.
        while not any(reader._is_sending for reader in place.hub._readers):
            await place.store.events.append(SettingsRejected("x" * 1_000))
        seen = await reading
        readers = tuple(place.hub._readers)

        place.hub._keep_alive_all(readers)
        assert place.hub.dropped == 0, "a reader has a whole period to recover"
        place.hub._keep_alive_all(readers)
        await settled(lambda: place.hub.readers == 1)

        assert place.hub.dropped == 1
        assert [frame.id for frame in seen] == list(range(1, EVENTS + 1))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await stuck.until("the end")
    assert "ASGI" not in caplog.text


async def test_two_hundred_readers_get_the_same_events(tmp_path: Path) -> None:
    async with station(tmp_path) as place, AsyncExitStack() as stack:
        sources: list[EventSource] = []
        for number in range(200):
            query = "names=canonical" if number % 2 else ""
            sources.append(await stack.enter_async_context(place.reader(query)))
        feeding = asyncio.create_task(feed(place, 500))

        seen = await asyncio.gather(*(source.canonical(500) for source in sources))

        await feeding
        assert all([frame.id for frame in frames] == list(range(1, 501)) for frames in seen)
        assert (place.hub.readers, place.hub.dropped, place.hub.position) == (200, 0, 500)


async def test_equal_filters_share_their_bytes() -> None:
    batch = Batch.of_log([recorded(SettingsRejected("x"), number) for number in range(1, 4)], 3)

    assert batch.chunk(EventFilter(agent="coder")) is batch.chunk(EventFilter(agent="coder"))
    assert batch.chunk(EventFilter(agent="nobody")) == b""


async def test_the_hub_recovers_from_a_locked_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with station(tmp_path) as place:
        await place.send(2)
        place.store.events.failures = 3
        async with place.reader("names=canonical", last_id=0) as source:
            replayed = await source.canonical(2)
            assert place.store.events.failures == 0

            place.store.events.failures = 3
            await place.send(2)
            live = await source.canonical(2)
            assert place.store.events.failures == 0

    assert [frame.id for frame in replayed + live] == [1, 2, 3, 4]
    assert caplog.text.count("the event stream cannot read the log") == 2, "once per outage, not once per attempt"


async def test_live_text_and_keep_alives_go_on_while_the_log_is_locked(tmp_path: Path) -> None:
    async with station(tmp_path) as place, place.reader("names=canonical") as source:
        place.store.events.failures = 1_000_000
        await place.send()
        await place.store.events.failed.wait()
        place.say("still here")
        assert (await source.next()).data["text"] == "still here"
        place.hub._keep_alive_all(tuple(place.hub._readers))
        assert (await source.next()).id == 0

        place.store.events.failures = 0
        assert (await source.next()).id == 1


async def test_the_log_is_not_read_without_readers(tmp_path: Path) -> None:
    async with station(tmp_path) as place:
        place.store.events.failures = 1
        await place.send(10)
        place.say("without a reader")
        assert place.store.events.failures == 1

        place.store.events.failures = 0
        async with place.reader() as source:
            await place.send()
            assert [frame.id for frame in await source.canonical(1)] == [11]


def test_a_batch_is_bounded_by_its_bytes() -> None:
    events = [recorded(SettingsRejected("x" * 1_000), number) for number in range(1, PAGE + 1)]

    batch = Batch.of_log(events, PAGE)

    assert batch.last < PAGE
    assert BATCH_BYTES <= batch.size < BATCH_BYTES + 2_000
    assert Batch.of_log(events[:3], 9).last == 9


def test_the_cache_keeps_recent_batches_up_to_its_size() -> None:
    recent = BatchCache(max_bytes=10_000)
    batch = Batch.of_log([recorded(SettingsRejected("x" * 1_000))], 7)

    for after in range(20):
        recent.add(after, batch)

    assert recent.get(0) is None
    assert recent.get(19) is batch
    assert sum(recent.get(after) is not None for after in range(20)) == 10_000 // batch.size


@pytest.mark.parametrize("types", [{"settings_rejected"}, {"message_dead"}])
def test_filtered_bytes_count_towards_the_cache_size(types: set[str]) -> None:
    recent = BatchCache(max_bytes=50_000)
    older, newer = (Batch.of_log([recorded(SettingsRejected("x" * 1_000), number)], number) for number in (1, 2))
    recent.add(0, older)
    recent.add(1, newer)
    for number in range(1_000):
        newer.chunk(EventFilter(frozenset({*types, str(number)})))

    assert recent.get(0) is None
    assert recent.get(1) is None
    # A batch that a reader still holds keeps working.
    assert newer.chunk(EventFilter()) == older.chunk(EventFilter()).replace(b"id: 1\n", b"id: 2\n")


async def test_work_waits_only_when_its_share_is_used_up() -> None:
    share = LoopShare(share=0.5)
    # Driven by hand: the coroutine has to finish without waiting.
    with pytest.raises(StopIteration):
        share.wait().send(None)

    began = time.perf_counter()
    share.charge(0.02)
    share.charge(0.02)
    await share.wait()

    assert time.perf_counter() - began >= 0.08
