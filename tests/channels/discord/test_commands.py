"""Slash commands: Discord's menu, and commands as messages."""

from pathlib import Path

import pytest

from tests.channels.discord.harness import Daemon, connected
from tests.channels.discord.payloads import CHANNEL, OTHER_CHANNEL, THREAD
from tests.channels.discord.server import DiscordServer
from tinyagi.channels.discord.commands import menu
from tinyagi.channels.port import COMMANDS, Part
from tinyagi.domain.chats import Chat


async def test_the_menu_is_written_once_and_again_when_it_differs(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    for _ in range(2):
        async with connected(server, tmp_path, daemon):
            assert [command["name"] for command in server.menu] == list(COMMANDS)
    assert server.menu_writes == 1
    server.menu[0]["description"] = "something else"
    async with connected(server, tmp_path, daemon):
        assert server.menu_writes == 2


async def test_without_server_channels_the_menu_is_for_direct_chats_only(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon, guild_channels=""):
        assert {str(command["contexts"]) for command in server.menu} == {"[1]"}


def test_the_menu_keeps_the_limits_of_discord() -> None:
    for command in menu(in_servers=True):
        assert str(command["name"]).islower()
        assert 1 <= len(str(command["description"])) <= 100


async def test_a_menu_that_is_not_taken_does_not_stop_the_bot(
    server: DiscordServer, daemon: Daemon, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.takes_menu = False
    async with connected(server, tmp_path, daemon):
        await server.write("hello")
        await daemon.until(1)
    assert "Discord did not take the menu of commands" in caplog.text


async def test_a_command_is_a_message_with_its_text(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    async with connected(server, tmp_path, daemon):
        chosen = await server.command("reset", "@writer @coder")
        (message,) = await daemon.until(1)
        await server.until_called_matching("/interactions/")
    assert message.id == chosen
    assert message.chat == Chat("7")
    assert message.text == "/reset @writer @coder"
    (answer,) = server.answers
    seen_by_the_person_only = 64
    assert isinstance(answer["data"], dict)
    assert (answer["data"]["content"], answer["data"]["flags"]) == ("`/reset @writer @coder`", seen_by_the_person_only)


async def test_a_command_in_a_chosen_channel_and_its_thread(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon):
        await server.command("status", place=str(CHANNEL))
        await server.command("help", place=str(THREAD))
        await daemon.until(2)
    assert {(message.text, message.chat.place) for message in daemon.messages} == {
        ("/status", str(CHANNEL)),
        ("/help", str(THREAD)),
    }


async def test_a_command_elsewhere_is_answered_but_not_handed_over(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon):
        await server.command("status", place=str(OTHER_CHANNEL))
        await server.until_called_matching("/interactions/")
        await server.write("hello")
        await daemon.until(1)
    assert daemon.texts == ["hello"]
    assert "I do not answer in this channel" in str(server.answers)


async def test_a_command_is_answered_in_time_while_the_daemon_is_away(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    daemon.holds = "all"
    async with connected(server, tmp_path, daemon):
        await server.command("stop")
        await server.until_called_matching("/interactions/")
        await daemon.let_go()
        await daemon.until(1)
    assert daemon.texts == ["/stop"]


async def test_commands_and_messages_of_a_chat_keep_their_order(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon):
        await server.write("one")
        await server.command("status")
        await server.write("two")
        await daemon.until(3)
    assert daemon.texts == ["one", "/status", "two"]


async def test_the_answer_to_a_command_is_an_ordinary_message(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon) as channel:
        chosen = await server.command("status")
        await daemon.until(1)
        await channel.send(Part(Chat("7"), "all is quiet", "k", reply_to=chosen))
    assert "message_reference" not in server.sent[0]
    assert server.deliveries[0].text == "all is quiet"
