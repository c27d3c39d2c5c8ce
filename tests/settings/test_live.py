"""Settings that follow their file: edits by hand, saves, half-written, broken and missing files."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Mapping
from datetime import timedelta

import pytest

from tests.settings.conftest import backups, stored, write
from tinyagi.domain.errors import StoreBusy
from tinyagi.settings.errors import InvalidSettings, UnreadableSettings
from tinyagi.settings.home import Home
from tinyagi.settings.live import LiveSettings
from tinyagi.settings.settings_file import SettingsFile


class Rejections:
    """Records rejections; fails the first `failures` times."""

    def __init__(self, failures: int = 0) -> None:
        self.reasons: list[str] = []
        self.recorded = asyncio.Event()
        self._failures = failures

    async def __call__(self, reason: str) -> None:
        if self._failures:
            self._failures -= 1
            raise StoreBusy("busy")
        self.reasons.append(reason)
        self.recorded.set()


def open_live(home: Home, rejections: Rejections | None = None) -> LiveSettings:
    """Settings that poll only when the test calls `poll_once`."""
    live = LiveSettings(SettingsFile(home), every=timedelta(hours=1))
    if rejections is not None:
        live._on_rejected = rejections
    return live


async def follow(live: LiveSettings, rejections: Rejections) -> None:
    """Follow the file as the engine does: again after an error."""
    while True:
        with contextlib.suppress(StoreBusy):
            async for _ in live.keep_polling(rejections):
                pass


async def test_the_file_is_loaded_at_the_start(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}, "mine": 1})

    live = open_live(home)

    assert live.current.queue.max_runs == 3
    assert live.raw == {"queue": {"max_runs": 3}, "mine": 1}
    assert live.version == 0


async def test_the_defaults_apply_until_there_is_a_file(home: Home) -> None:
    rejections = Rejections()
    live = open_live(home, rejections)
    assert list(live.current.agents) == ["tinyagi"]
    await live.poll_once()
    await live.poll_once()
    assert live.version == 0

    write(home, {"agents": {"coder": {}}})
    await live.poll_once()

    assert list(live.current.agents) == ["coder"]
    assert rejections.reasons == []


async def test_a_broken_file_is_refused_at_the_start(home: Home) -> None:
    home.settings_file.write_text("{")

    with pytest.raises(UnreadableSettings):
        LiveSettings(SettingsFile(home))


async def test_a_valid_edit_applies_at_the_next_poll(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}})
    live = open_live(home)
    before = live.current

    write(home, {"queue": {"max_runs": 4}})
    await live.poll_once()

    assert live.current.queue.max_runs == 4
    assert before.queue.max_runs == 3
    assert await live.beyond(0) == live.version == 1


async def test_a_change_wakes_waiters(home: Home) -> None:
    live = open_live(home)
    waiting = asyncio.create_task(live.beyond(live.version))

    await live.save({"default_agent": "tinyagi"})

    assert await waiting == 1


async def test_quick_edits_of_the_same_size_are_all_seen(home: Home) -> None:
    write(home, {"queue": {"max_runs": 1}})
    live = open_live(home)

    for number in range(2, 9):
        write(home, {"queue": {"max_runs": number}})
        await live.poll_once()
        assert live.current.queue.max_runs == number


async def test_an_unchanged_file_is_not_read_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, {"queue": {"max_runs": 1}})
    document = SettingsFile(home)
    monkeypatch.setattr("tinyagi.settings.settings_file.time.time_ns", lambda: 1 << 62)
    live = LiveSettings(document)
    reads = []
    monkeypatch.setattr(document, "content", lambda: reads.append(1))

    await live.poll_once()

    assert reads == []


async def test_reformatting_the_file_is_no_change(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}})
    live = open_live(home)

    home.settings_file.write_text(json.dumps({"queue": {"max_runs": 3}}, indent=4))
    await live.poll_once()

    assert live.version == 0


async def test_an_invalid_edit_keeps_the_last_valid_settings_and_is_reported_once(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}})
    rejections = Rejections()
    live = open_live(home, rejections)

    write(home, {"queue": {"max_runs": 0}})
    for _ in range(4):
        await live.poll_once()

    assert live.current.queue.max_runs == 3
    assert live.version == 0
    (reason,) = rejections.reasons
    assert "queue.max_runs: 0 is too small" in reason

    write(home, {"queue": {"max_runs": -1}})
    for _ in range(4):
        await live.poll_once()
    assert len(rejections.reasons) == 2

    write(home, {"queue": {"max_runs": 5}})
    await live.poll_once()
    assert live.current.queue.max_runs == 5

    write(home, {"queue": {"max_runs": 0}})
    for _ in range(4):
        await live.poll_once()
    assert len(rejections.reasons) == 3


async def test_an_invalid_edit_is_reported_again_after_it_was_undone(home: Home) -> None:
    good: dict[str, object] = {"queue": {"max_runs": 3}}
    write(home, good)
    rejections = Rejections()
    live = open_live(home, rejections)

    for _ in range(2):
        home.settings_file.write_text("{")
        await live.poll_once()
        await live.poll_once()
        write(home, good)
        await live.poll_once()

    assert len(rejections.reasons) == 2
    assert live.version == 0


async def test_a_half_written_file_is_not_reported(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}})
    rejections = Rejections()
    live = open_live(home, rejections)

    for half_written in ("", '{"queue": ', '{"queue": {"max_runs": 5}'):
        home.settings_file.write_text(half_written)
        await live.poll_once()
    write(home, {"queue": {"max_runs": 5}})
    await live.poll_once()

    assert rejections.reasons == []
    assert live.current.queue.max_runs == 5


async def test_a_missing_file_is_reported_and_restored_by_the_next_save(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}, "mine": 1})
    rejections = Rejections()
    live = open_live(home, rejections)

    home.settings_file.unlink()
    for _ in range(3):
        await live.poll_once()

    assert live.current.queue.max_runs == 3
    assert rejections.reasons == [f"{home.settings_file} is gone. The last good settings stay in force."]

    await live.save({"queue": {"attempts": 2}})
    assert stored(home) == {"queue": {"max_runs": 3, "attempts": 2}, "mine": 1}


async def test_an_unreadable_file_is_reported_once(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}})
    rejections = Rejections()
    live = open_live(home, rejections)

    home.settings_file.unlink()
    home.settings_file.mkdir()
    for _ in range(4):
        await live.poll_once()

    assert live.current.queue.max_runs == 3
    (reason,) = rejections.reasons
    assert "cannot be read" in reason


async def test_a_save_applies_at_once(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}})
    live = open_live(home)

    settings = await live.save({"queue": {"attempts": 7}})

    assert settings is live.current
    assert settings.queue.attempts == 7
    assert live.version == 1
    await live.poll_once()
    assert live.version == 1


async def test_a_save_keeps_a_concurrent_edit_of_the_file(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}})
    live = open_live(home)

    write(home, {"queue": {"max_runs": 4}})
    await live.save({"queue": {"attempts": 7}})

    assert (live.current.queue.max_runs, live.current.queue.attempts) == (4, 7)


async def test_an_invalid_save_changes_nothing(home: Home) -> None:
    live = open_live(home)

    with pytest.raises(InvalidSettings, match=r"queue\.attempts"):
        await live.save({"queue": {"attempts": 0}})

    assert live.version == 0
    assert not home.settings_file.exists()


async def test_concurrent_saves_are_all_kept(home: Home) -> None:
    live = open_live(home)

    def adding(name: str) -> dict[str, object]:
        return {"agents": {name: {}}}

    def enable(raw: Mapping[str, object]) -> Mapping[str, object]:
        channels = raw.get("channels", {})
        assert isinstance(channels, dict)
        return {"channels": {"enabled": [*channels.get("enabled", []), "x"]}}

    await asyncio.gather(*(live.save(adding(f"a{n}")) for n in range(10)), *(live.edit(enable) for _ in range(10)))

    assert sorted(live.current.agents) == [f"a{n}" for n in range(10)]
    assert live.current.channels.enabled == ("x",) * 10
    assert live.version == 20


async def test_a_slow_poll_does_not_undo_a_save(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, {"queue": {"max_runs": 3}})
    document = SettingsFile(home)
    live = LiveSettings(document)
    write(home, {"queue": {"max_runs": 4}})
    entered, go_on, read = threading.Event(), threading.Event(), document.content

    def slowly() -> bytes | None:
        content = read()
        entered.set()
        go_on.wait()
        return content

    monkeypatch.setattr(document, "content", slowly)
    polling = asyncio.create_task(live.poll_once())
    await asyncio.to_thread(entered.wait)
    saving = asyncio.create_task(live.save({"queue": {"max_runs": 5}}))
    # A save that does not wait for the poll would be done by now, and be undone afterwards.
    await asyncio.wait([saving], timeout=0.2)
    go_on.set()
    await asyncio.gather(polling, saving)

    assert live.current.queue.max_runs == 5


async def test_a_valid_edit_by_hand_is_backed_up(home: Home) -> None:
    write(home, {"mine": 1})
    live = open_live(home)
    write(home, {"mine": 2})
    await live.poll_once()

    home.settings_file.write_text("{")

    with pytest.raises(UnreadableSettings) as caught:
        await live.save({"mine": 3})
    assert caught.value.backup is not None
    assert json.loads(caught.value.backup.read_text()) == {"mine": 2}
    assert home.settings_file.read_text() == "{"


async def test_an_edit_applies_when_it_cannot_be_backed_up(home: Home) -> None:
    write(home, {"mine": 1})
    live = open_live(home)
    home.backups.rmdir()
    home.backups.write_text("in the way")

    write(home, {"mine": 2})
    await live.poll_once()

    assert live.raw == {"mine": 2}


async def test_settings_that_need_a_restart_are_listed_until_undone(home: Home) -> None:
    write(home, {"server": {"port": 1}})
    live = open_live(home)

    await live.save({"server": {"port": 2, "host": "x"}, "store": {"kind": "y"}, "queue": {"max_runs": 2}})
    assert live.needs_restart == ("store.kind", "server.port", "server.host")

    await live.save({"server": {"port": 1, "host": None}, "store": None})
    assert not live.needs_restart


async def test_the_file_is_followed_after_a_failed_report(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}})
    rejections = Rejections(failures=1)
    live = LiveSettings(SettingsFile(home), every=timedelta(milliseconds=1))
    following = asyncio.create_task(follow(live, rejections))
    try:
        write(home, {"queue": {"max_runs": 4}})
        await live.beyond(0)
        assert live.current.queue.max_runs == 4

        home.settings_file.write_text("{")
        await rejections.recorded.wait()
        assert live.current.queue.max_runs == 4
    finally:
        following.cancel()

    assert len(backups(home)) == 1
