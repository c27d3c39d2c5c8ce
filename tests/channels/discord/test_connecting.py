"""Log-in, refusals and the end of a connection."""

import asyncio
import logging
from pathlib import Path

import pytest

from tests.channels.discord.harness import Daemon, connected
from tests.channels.discord.payloads import CHANNEL
from tests.channels.discord.server import DiscordServer
from tinyagi.channels.discord.channel import DiscordChannel
from tinyagi.channels.discord.manifest import MANIFEST
from tinyagi.channels.port import Channel, ChannelError, NotSetUp


async def refusal(server: DiscordServer, state: Path, **settings: str) -> NotSetUp:
    channel = DiscordChannel({**server.settings, **settings}, state)
    with pytest.raises(NotSetUp) as caught:
        await channel.connect()
    await channel.close()
    return caught.value


async def test_connect_returns_the_name_of_the_bot(server: DiscordServer, tmp_path: Path) -> None:
    channel: Channel = DiscordChannel(server.settings, tmp_path)
    assert await channel.connect() == "office"
    assert channel.manifest is MANIFEST
    await channel.close()


async def test_a_refused_token_names_the_remedy(
    server: DiscordServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    error = await refusal(server, tmp_path, bot_token="wrong.secret.token")  # noqa: S106
    assert "Discord refuses the bot token. Get a new one (https://discord.com/developers/applications" in str(error)
    assert "wrong.secret" not in f"{error}{caplog.text}"


async def test_a_token_that_the_gateway_refuses_names_the_remedy(server: DiscordServer, tmp_path: Path) -> None:
    server.gateway.token = "changed in between"
    assert "Discord refuses the bot token" in str(await refusal(server, tmp_path))


async def test_a_missing_intent_names_the_switch(server: DiscordServer, tmp_path: Path) -> None:
    server.gateway.allows_texts = False
    error = await refusal(server, tmp_path)
    assert "Bot → Privileged Gateway Intents → Message Content Intent" in str(error)


async def test_direct_chats_need_no_privileged_intent(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    server.gateway.allows_texts = False
    async with connected(server, tmp_path, daemon, guild_channels=""):
        await server.write("hello")
        await daemon.until(1)


@pytest.mark.parametrize("token", ["", "  "])
async def test_a_missing_token_names_the_page(server: DiscordServer, tmp_path: Path, token: str) -> None:
    assert "Discord needs the setting bot_token: https://" in str(await refusal(server, tmp_path, bot_token=token))
    assert not server.calls


@pytest.mark.parametrize("channels", ["general", "901,#902", "901 902", "９０１"])
async def test_a_channel_that_is_no_id_is_refused(server: DiscordServer, tmp_path: Path, channels: str) -> None:
    error = await refusal(server, tmp_path, guild_channels=channels)
    assert "is not the id of a Discord channel" in str(error)


async def test_ids_of_channels_may_have_spaces(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    async with connected(server, tmp_path, daemon, guild_channels=f" 77 , {CHANNEL},"):
        await server.write("hello", place=str(CHANNEL))
        await daemon.until(1)


async def test_a_channel_of_another_server_is_reported(
    server: DiscordServer, daemon: Daemon, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(server, tmp_path, daemon, guild_channels="77"):
        await server.write("hello")
        await daemon.until(1)
        await server.until_called("GET /channels/77")
        await server.write("hello", person="8")
        await daemon.until(2)
    assert "77 in guild_channels is not a server channel that the bot can read." in caplog.text


async def test_a_platform_that_is_away_is_no_fault_of_the_settings(server: DiscordServer, tmp_path: Path) -> None:
    await server.stop()
    channel = DiscordChannel(server.settings, tmp_path)
    with pytest.raises(ChannelError, match="cannot be reached") as caught:
        await channel.connect()
    assert not isinstance(caught.value, NotSetUp)
    await channel.close()


async def test_a_platform_with_a_problem_is_no_fault_of_the_settings(server: DiscordServer, tmp_path: Path) -> None:
    server.fail_every(1)
    channel = DiscordChannel(server.settings, tmp_path)
    with pytest.raises(ChannelError, match="problem of its own") as caught:
        await channel.connect()
    assert not isinstance(caught.value, NotSetUp)
    await channel.close()


async def test_a_gateway_that_ends_at_once_is_no_endless_wait(server: DiscordServer, tmp_path: Path) -> None:
    server.gateway.greets = False
    channel = DiscordChannel(server.settings, tmp_path)
    with pytest.raises(ChannelError):
        await channel.connect()
    await channel.close()


@pytest.mark.parametrize(
    ("code", "error", "sentence"),
    [
        (4004, NotSetUp, "refuses the bot token"),
        (4014, NotSetUp, "Message Content Intent"),
        (4012, ChannelError, "closed the connection .code 4012"),
    ],
)
async def test_the_end_of_the_connection_ends_receiving(
    server: DiscordServer, daemon: Daemon, tmp_path: Path, code: int, error: type[ChannelError], sentence: str
) -> None:
    channel = DiscordChannel(server.settings, tmp_path)
    await channel.connect()
    receiving = asyncio.create_task(channel.receive(daemon.receive))
    await server.gateway.close_all(code)
    with pytest.raises(error, match=sentence):
        await receiving
    await channel.close()


async def test_a_gateway_that_stays_away_ends_receiving(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    channel = DiscordChannel(server.settings, tmp_path)
    await channel.connect()
    receiving = asyncio.create_task(channel.receive(daemon.receive))
    await server.stop()
    with pytest.raises(ChannelError, match="cannot be reached"):
        await receiving
    await channel.close()


async def test_receive_needs_a_connection(server: DiscordServer, daemon: Daemon, tmp_path: Path) -> None:
    with pytest.raises(ChannelError, match="not connected"):
        await DiscordChannel(server.settings, tmp_path).receive(daemon.receive)


async def test_a_channel_connects_again_after_it_was_closed(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    channel = DiscordChannel(server.settings, tmp_path)
    for _ in range(2):
        await channel.connect()
        await channel.close()
    async with connected(server, tmp_path, daemon):
        await server.write("hello")
        await daemon.until(1)
