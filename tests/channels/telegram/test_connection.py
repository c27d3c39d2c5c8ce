"""Connecting and closing."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tests.channels.platform import Platform
from tests.channels.telegram.server import TelegramServer
from tinyagi.channels.port import COMMANDS, Channel, ChannelError, DeliveryError, NotSetUp, Part
from tinyagi.channels.telegram.channel import TelegramChannel
from tinyagi.channels.telegram.manifest import MANIFEST
from tinyagi.domain.chats import Chat


async def test_connect_names_the_bot_and_sets_its_menu(server: TelegramServer, tmp_path: Path) -> None:
    channel = TelegramChannel(server.settings, tmp_path)
    assert await channel.connect() == "@office_bot"
    call = await server.until_called("setMyCommands")
    commands = json.loads(call["commands"])
    assert {command["command"]: command["description"] for command in commands} == COMMANDS
    assert "deleteWebhook" not in [method for method, _ in server.calls]
    await channel.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_webhook_is_removed_and_its_messages_are_kept(server: TelegramServer, tmp_path: Path) -> None:
    server.webhook = "https://old.example/hook"
    await server.write("hi")
    channel = TelegramChannel(server.settings, tmp_path)
    await channel.connect()
    await channel.close()
    assert server.webhook == ""
    assert server.unconfirmed == 1


@pytest.mark.parametrize("token", ["", "  ", "nonsense", "42:a/b", "42:a\nb", "{token}", "42:refused-by-telegram"])
async def test_a_refused_token_says_where_to_get_one(server: TelegramServer, tmp_path: Path, token: str) -> None:
    channel = TelegramChannel({**server.settings, "bot_token": token}, tmp_path)
    with pytest.raises(NotSetUp, match=r"@BotFather.*tinyagi channel setup telegram --bot-token") as caught:
        await channel.connect()
    assert not token.strip() or token not in str(caught.value)
    await channel.close()


@pytest.mark.parametrize("address", ["localhost:1", "ftp://x", "http://x/{token}", "http://x y"])
async def test_an_address_that_is_none_is_refused(server: TelegramServer, tmp_path: Path, address: str) -> None:
    with pytest.raises(NotSetUp, match="api_url"):
        await TelegramChannel({**server.settings, "api_url": address}, tmp_path).connect()


async def test_an_address_of_something_else_is_named(server: TelegramServer, tmp_path: Path) -> None:
    elsewhere = server.settings["api_url"] + "/elsewhere/"
    with pytest.raises(NotSetUp, match="elsewhere is not the address of a Bot API server"):
        await TelegramChannel({**server.settings, "api_url": elsewhere}, tmp_path).connect()


async def test_a_server_that_is_down_is_no_wrong_setting(server: TelegramServer, tmp_path: Path) -> None:
    await server.stop()
    with pytest.raises(ChannelError, match="cannot be reached") as caught:
        await TelegramChannel(server.settings, tmp_path).connect()
    assert not isinstance(caught.value, NotSetUp)


async def test_a_menu_that_is_refused_stops_nothing(
    server: TelegramServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server.refuse("setMyCommands", 400, "Bad Request: BOT_COMMAND_INVALID")
    channel = TelegramChannel(server.settings, tmp_path)
    with caplog.at_level(logging.WARNING):
        await channel.connect()
    assert "command menu is not set" in caplog.text
    await channel.close()


async def test_a_closed_channel_can_connect_again(server: TelegramServer, channel: TelegramChannel) -> None:
    await channel.close()
    await channel.close()
    with pytest.raises(DeliveryError, match="not connected"):
        await channel.send(Part(Chat("7"), "a", "key"))
    await channel.connect()
    await channel.send(Part(Chat("7"), "a", "key"))
    assert len(server.deliveries) == 1


def test_every_setting_explains_itself() -> None:
    assert [(setting.name, setting.is_secret, setting.is_required) for setting in MANIFEST.settings] == [
        ("bot_token", True, True),
        ("api_url", False, False),
    ]
    assert all(setting.help and setting.label for setting in MANIFEST.settings)
    assert MANIFEST.count("😀") == 2


def test_the_manifest_loads_no_library() -> None:
    code = "import sys, tinyagi.channels.telegram.manifest as m; print(m.MANIFEST.id, 'telegram' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "telegram False\n"


def test_channel_and_server_fit_their_ports(tmp_path: Path) -> None:
    server: Platform = TelegramServer()
    channel: Channel = TelegramChannel(server.settings, tmp_path)
    assert channel.manifest.id == server.channel
