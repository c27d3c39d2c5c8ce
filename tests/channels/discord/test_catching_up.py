"""What happens while the bot is away or its connection breaks: nothing is lost, nothing is doubled, order is kept."""

import json
import logging
from pathlib import Path

import pytest

from tests.channels.discord import payloads
from tests.channels.discord.harness import Daemon, connected
from tests.channels.discord.payloads import BOT, BOT_ROLE, CHANNEL, GUILD, THREAD
from tests.channels.discord.server import DiscordServer
from tinyagi.channels.discord.channel import DiscordChannel
from tinyagi.channels.discord.incoming import Reader
from tinyagi.channels.discord.library import discord
from tinyagi.channels.port import ChannelError, ChannelMessage, Part
from tinyagi.domain.chats import Chat

ADA = payloads.user(7, "Ada")


@pytest.fixture(autouse=True)
def identify_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library waits five seconds before it begins a second session."""

    async def at_once(_: discord.Client, shard: int | None, *, initial: bool = False) -> None:
        """The hook without its wait."""

    monkeypatch.setattr(discord.Client, "before_identify_hook", at_once)


async def away(server: DiscordServer, state: Path) -> None:
    """Let the bot know a person and a channel, and go away."""
    daemon = Daemon()
    async with connected(server, state, daemon):
        await server.write("first")
        await server.write("first in the channel", place=str(CHANNEL))
        await daemon.until(2)


async def test_messages_from_the_time_away_come_first_and_in_order(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    await away(server, tmp_path)
    for number in range(150):
        await server.write(f"{number}")
    async with connected(server, tmp_path, daemon):
        await server.write("live")
        await daemon.until(151)
    assert daemon.texts == [*map(str, range(150)), "live"]


async def test_mentions_from_the_time_away_are_handed_over(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    await away(server, tmp_path)
    await server.write("in the channel", place=str(CHANNEL))
    await server.post(CHANNEL, ADA, "just talking")
    await server.post(CHANNEL, ADA, f"<@&{BOT_ROLE}> by its role")
    await server.write("in a known thread", place=str(THREAD))
    await server.add_thread(990)
    await server.write("in a new thread", place="990")
    async with connected(server, tmp_path, daemon):
        await daemon.until(4)
    assert sorted(daemon.texts) == ["by its role", "in a known thread", "in a new thread", "in the channel"]


async def test_mentions_from_before_the_bot_are_not_answered(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    await server.write("long ago", place=str(CHANNEL))
    await server.write("long ago too", place=str(THREAD))
    async with connected(server, tmp_path, daemon):
        await server.until_called("GET /guilds/900/threads/active")
    async with connected(server, tmp_path, daemon):
        await server.write("now", place=str(CHANNEL))
        await server.write("now too", place=str(THREAD))
        await daemon.until(2)
    assert sorted(daemon.texts) == ["now", "now too"]


async def test_a_channel_that_is_chosen_again_begins_anew(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    await away(server, tmp_path)
    async with connected(server, tmp_path, daemon, guild_channels=""):
        await server.write("not chosen", place=str(CHANNEL))
    async with connected(server, tmp_path, daemon):
        await server.write("chosen again", place=str(CHANNEL))
        await daemon.until(1)
    assert daemon.texts == ["chosen again"]


async def test_a_message_that_was_not_stored_comes_again(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    gone = Daemon()
    gone.holds = "all"
    async with connected(server, tmp_path, gone):
        written = [await server.write("one"), await server.write("two")]
        await gone.until_asked(1)
    async with connected(server, tmp_path, daemon):
        await daemon.until(2)
    assert [message.id for message in daemon.messages] == written


async def test_the_first_message_of_all_comes_again_too(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    gone = Daemon()
    gone.holds = "all"
    async with connected(server, tmp_path, gone):
        written = await server.write("my first words")
        await gone.until_asked(1)
    async with connected(server, tmp_path, daemon):
        await daemon.until(1)
    assert [message.id for message in daemon.messages] == [written]


async def test_what_was_stored_does_not_come_again(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    await away(server, tmp_path)
    async with connected(server, tmp_path, daemon):
        await server.write("new")
        await daemon.until(1)
    assert daemon.texts == ["new"]


async def test_the_mark_moves_only_after_the_message_was_stored(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    def last() -> int:
        marks = json.loads((tmp_path / "marks.json").read_text())["channels"]
        return int(marks[str(server.direct_channel(7))]["last"])

    await away(server, tmp_path)
    before = last()
    daemon.holds = "all"
    async with connected(server, tmp_path, daemon):
        written = await server.write("waits")
        await daemon.until_asked(1)
    assert last() == before
    daemon.holds = None
    async with connected(server, tmp_path, daemon):
        await daemon.until(1)
    assert last() == int(written.partition(".")[2])


async def test_a_repeated_event_is_handed_over_once(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    async with connected(server, tmp_path, daemon):
        written = await server.write("one")
        await server.repeat(written)
        await server.write("two")
        await daemon.until(2)
    assert daemon.texts == ["one", "two"]


async def test_a_cut_connection_is_resumed_without_loss_or_double(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon):
        for number in range(60):
            if number % 20 == 10:
                server.gateway.pause()
            if number % 20 == 15:
                server.gateway.go_on()
            await server.write(f"{number}")
        await daemon.until(60)
    assert daemon.texts == [str(number) for number in range(60)]
    assert server.gateway.identified == 1
    assert server.gateway.resumed > 0
    assert not any(call.startswith("GET") and call.endswith("/messages") for call in server.calls)


async def test_a_request_to_reconnect_is_followed(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    async with connected(server, tmp_path, daemon):
        await server.write("before")
        await daemon.until(1)
        await server.gateway.ask_to_reconnect()
        await server.write("after")
        await daemon.until(2)
    assert daemon.texts == ["before", "after"]
    assert server.gateway.resumed == 1


async def test_after_a_lost_session_the_history_fills_the_gap(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon):
        await server.write("before")
        await server.write("before", place=str(CHANNEL))
        await daemon.until(2)
        server.gateway.pause()
        server.gateway.forget_sessions()
        await server.write("missed")
        await server.write("missed", place=str(CHANNEL))
        server.gateway.go_on()
        await daemon.until(4)
        await server.write("after")
        await daemon.until(5)
    assert daemon.texts == ["before", "before", "missed", "missed", "after"]
    assert server.gateway.identified == 2


async def test_messages_that_wait_for_the_daemon_do_not_fill_the_memory(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    daemon.holds = "all"
    async with connected(server, tmp_path, daemon) as channel:
        for number in range(250):
            await server.write(f"{number}")
        await daemon.until_asked(1)
        await server.write("last", person="8")
        await daemon.until_asked(2)
        assert channel._client
        waiting = channel._client.inbox._lanes[server.direct_channel(7)].waiting
        assert len(waiting) == 100
        await daemon.let_go()
        await daemon.until(251)
    assert [text for text in daemon.texts if text != "last"] == [str(number) for number in range(250)]


async def test_history_is_asked_again_until_discord_answers(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    await away(server, tmp_path)
    await server.write("missed")
    server.refuse(server.direct_channel(7), 503, 0, "upstream connect error")
    async with connected(server, tmp_path, daemon):
        await server.until_called(f"GET /channels/{server.direct_channel(7)}/messages")
        server.refusals.clear()
        await daemon.until(1)
    assert daemon.texts == ["missed"]


async def test_a_channel_that_is_gone_does_not_hold_back_others(
    server: DiscordServer, daemon: Daemon, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await away(server, tmp_path)
    await server.write("missed")
    server.refuse(CHANNEL, 403, 50001, "Missing Access")
    async with connected(server, tmp_path, daemon):
        await daemon.until(1)
        await server.until_called(f"GET /channels/{CHANNEL}/messages")
        await server.write("live", place=str(THREAD))
        await daemon.until(2)
    assert daemon.texts == ["missed", "live"]
    assert "The bot cannot see this channel. Give it the permission View Channel there." in caplog.text


async def test_a_message_that_the_library_does_not_understand_is_skipped(
    server: DiscordServer, daemon: Daemon, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    poll: payloads.Payload = {"question": {"text": "Which?"}, "answers": [], "expiry": None, "allow_multiselect": False}
    await away(server, tmp_path)
    await server.write("before")
    await server.post(server.direct_channel(7), ADA, "", poll=poll)
    for number in range(120):
        await server.write(f"{number}")
    async with connected(server, tmp_path, daemon):
        await daemon.until(121)
    assert daemon.texts == ["before", *map(str, range(120))]
    assert "is skipped" in caplog.text


async def test_the_chats_of_another_bot_are_forgotten(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    await away(server, tmp_path)
    server.bot = payloads.user(2, "Other", is_bot=True)
    await server.write("for the first bot")
    async with connected(server, tmp_path, daemon):
        await server.write("live", person="8")
        await daemon.until(1)
    assert daemon.texts == ["live"]


async def test_a_person_to_whom_the_bot_wrote_first_is_known(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon) as channel:
        await channel.send(Part(Chat("7"), "good morning", "k"))
    await server.write("good morning to you")
    async with connected(server, tmp_path, daemon):
        await daemon.until(1)
    assert daemon.texts == ["good morning to you"]


async def test_a_failure_of_the_daemon_ends_receiving(server: DiscordServer, tmp_path: Path) -> None:
    async def receive(_: ChannelMessage) -> None:
        raise ValueError("broken")

    channel = DiscordChannel(server.settings, tmp_path)
    await channel.connect()
    try:
        await server.write("hello")
        with pytest.raises(ValueError, match="broken"):
            await channel.receive(receive)
    finally:
        await channel.close()


async def test_an_event_that_is_not_understood_ends_receiving(
    server: DiscordServer, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("author")

    channel = DiscordChannel(server.settings, tmp_path)
    await channel.connect()
    monkeypatch.setattr(Reader, "message", broken)
    try:
        await server.write("hello")
        with pytest.raises(ChannelError, match=r"was not understood \(KeyError\)"):
            await channel.receive(daemon.receive)
    finally:
        await channel.close()


async def test_threads_of_a_forum_are_found_after_the_time_away(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    forum = 960
    server.places[forum] = payloads.channel(forum, GUILD, payloads.FORUM)
    await server.add_thread(961, parent=forum)
    async with connected(server, tmp_path, daemon, guild_channels=str(forum)):
        await server.write("live", place="961")
        await daemon.until(1)
    await server.add_thread(962, parent=forum)
    await server.write("missed", place="962")
    async with connected(server, tmp_path, daemon, guild_channels=str(forum)):
        await daemon.until(2)
    assert daemon.texts == ["live", "missed"]
    assert f"GET /channels/{forum}/messages" not in server.calls


async def test_texts_and_tokens_stay_out_of_the_log(
    server: DiscordServer, daemon: Daemon, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await away(server, tmp_path)
    async with connected(server, tmp_path, daemon):
        server.gateway.pause()
        server.gateway.forget_sessions()
        await server.post(server.direct_channel(7), ADA, f"my secret <@{BOT}>")
        server.gateway.go_on()
        await daemon.until(1)
    assert "my secret" not in caplog.text
    assert server.token not in caplog.text
