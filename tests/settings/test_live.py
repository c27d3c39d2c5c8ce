"""Settings that follow their file: edits by hand, by us, half written, broken, gone."""

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
    """Remembers what it is told; may fail the first times."""

    def __init__(self, failures: int = 0) -> None:
        self.reasons: list[str] = []
        self.told = asyncio.Event()
        self._failures = failures

    async def __call__(self, reason: str) -> None:
        if self._failures:
            self._failures -= 1
            raise StoreBusy("busy")
        self.reasons.append(reason)
        self.told.set()


def open_live(home: Home, rejections: Rejections | None = None) -> LiveSettings:
    """Settings that look only when the test says so."""
    live = LiveSettings(SettingsFile(home), every=timedelta(hours=1))
    if rejections is not None:
        live._on_rejected = rejections
    return live


async def follow(live: LiveSettings, rejections: Rejections) -> None:
    """Follow the file as the engine does: again after an error."""
    while True:
        with contextlib.suppress(StoreBusy):
            async for _ in live.keep_looking(rejections):
                pass


async def test_the_file_counts_from_the_start(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}, "mine": 1})

    live = open_live(home)

    assert live.current.queue.max_runs == 3
    assert live.raw == {"queue": {"max_runs": 3}, "mine": 1}
    assert live.version == 0


async def test_without_a_file_the_defaults_count_until_there_is_one(home: Home) -> None:
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


async def test_a_good_edit_counts_at_the_next_look(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}})
    live = open_live(home)
    before = live.current

    write(home, {"queue": {"max_runs": 4}})
    await live.poll_once()

    assert live.current.queue.max_runs == 4
    assert before.queue.max_runs == 3
    assert await live.beyond(0) == live.version == 1


async def test_whoever_waits_is_woken_by_a_change(home: Home) -> None:
    live = open_live(home)
    waiting = asyncio.create_task(live.beyond(live.version))

    await live.save({"default_agent": "tinyagi"})

    assert await waiting == 1


async def test_edits_of_the_same_size_within_a_moment_are_all_seen(home: Home) -> None:
    write(home, {"queue": {"max_runs": 1}})
    live = open_live(home)

    for number in range(2, 9):
        write(home, {"queue": {"max_runs": number}})
        await live.poll_once()
        assert live.current.queue.max_runs == number


async def test_a_file_that_stays_as_it_is_is_not_read_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, {"queue": {"max_runs": 1}})
    document = SettingsFile(home)
    monkeypatch.setattr("tinyagi.settings.settings_file.time.time_ns", lambda: 1 << 62)
    live = LiveSettings(document)
    reads = []
    monkeypatch.setattr(document, "content", lambda: reads.append(1))

    await live.poll_once()

    assert reads == []


async def test_a_new_spelling_of_the_same_is_no_change(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}})
    live = open_live(home)

    home.settings_file.write_text(json.dumps({"queue": {"max_runs": 3}}, indent=4))
    await live.poll_once()

    assert live.version == 0


async def test_a_bad_edit_keeps_the_last_good_settings_and_is_told_once(home: Home) -> None:
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


async def test_a_bad_edit_that_is_taken_back_is_told_again_when_it_returns(home: Home) -> None:
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


async def test_a_file_that_is_just_being_written_is_not_told(home: Home) -> None:
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


async def test_a_file_that_is_gone_is_told_and_comes_back_whole_with_the_next_save(home: Home) -> None:
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


async def test_a_file_that_cannot_be_read_is_told_once(home: Home) -> None:
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


async def test_our_own_save_counts_at_once(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}})
    live = open_live(home)

    settings = await live.save({"queue": {"attempts": 7}})

    assert settings is live.current
    assert settings.queue.attempts == 7
    assert live.version == 1
    await live.poll_once()
    assert live.version == 1


async def test_a_save_keeps_what_somebody_else_has_just_written(home: Home) -> None:
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


async def test_edits_at_the_same_time_are_made_one_after_another(home: Home) -> None:
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


async def test_a_look_that_takes_long_does_not_undo_a_save(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
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
    looking = asyncio.create_task(live.poll_once())
    await asyncio.to_thread(entered.wait)
    saving = asyncio.create_task(live.save({"queue": {"max_runs": 5}}))
    # A save that does not wait for the look is done by then, and overtaken afterwards.
    await asyncio.wait([saving], timeout=0.2)
    go_on.set()
    await asyncio.gather(looking, saving)

    assert live.current.queue.max_runs == 5


async def test_a_good_edit_by_hand_can_be_gone_back_to(home: Home) -> None:
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


async def test_an_edit_counts_although_it_cannot_be_backed_up(home: Home) -> None:
    write(home, {"mine": 1})
    live = open_live(home)
    home.backups.rmdir()
    home.backups.write_text("in the way")

    write(home, {"mine": 2})
    await live.poll_once()

    assert live.raw == {"mine": 2}


async def test_what_needs_a_restart_is_named_until_it_is_taken_back(home: Home) -> None:
    write(home, {"server": {"port": 1}})
    live = open_live(home)

    await live.save({"server": {"port": 2, "host": "x"}, "store": {"kind": "y"}, "queue": {"max_runs": 2}})
    assert live.needs_restart == ("store.kind", "server.port", "server.host")

    await live.save({"server": {"port": 1, "host": None}, "store": None})
    assert not live.needs_restart


async def test_the_file_is_followed_also_after_a_report_of_a_bad_edit_has_failed(home: Home) -> None:
    write(home, {"queue": {"max_runs": 3}})
    rejections = Rejections(failures=1)
    live = LiveSettings(SettingsFile(home), every=timedelta(milliseconds=1))
    following = asyncio.create_task(follow(live, rejections))
    try:
        write(home, {"queue": {"max_runs": 4}})
        await live.beyond(0)
        assert live.current.queue.max_runs == 4

        home.settings_file.write_text("{")
        await rejections.told.wait()
        assert live.current.queue.max_runs == 4
    finally:
        following.cancel()

    assert len(backups(home)) == 1
