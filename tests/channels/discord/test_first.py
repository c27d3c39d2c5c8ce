from pathlib import Path
from tests.channels.discord.harness import Daemon, connected
from tests.channels.discord.server import DiscordServer
from tinyagi.channels.chat import Chat
from tinyagi.channels.port import Part


async def test_a_direct_message_is_handed_over_and_answered(
    server: DiscordServer, daemon: Daemon, tmp_path: Path
) -> None:
    async with connected(server, tmp_path, daemon) as channel:
        sent = await server.write("hello")
        messages = await daemon.until(1)
        assert messages[0].id == sent
        assert messages[0].text == "hello"
        assert messages[0].chat == Chat("7")
        delivered = await channel.send(Part(Chat("7"), "hi", "k1", reply_to=sent))
        assert server.deliveries[0].sent == delivered
        assert server.deliveries[0].text == "hi"
        await server.write("in a place", place="901")
        print((await daemon.until(2))[1])
        print(server.calls, server.sent)
