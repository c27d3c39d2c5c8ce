"""The process of the channel is killed with -9 while people write."""

import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.channels.discord.harness import PATIENCE
from tests.channels.discord.payloads import CHANNEL
from tests.channels.discord.server import DiscordServer


class Life:
    """A process of the channel."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self._child = child

    @classmethod
    async def begin(cls, server: DiscordServer, state: Path) -> "Life":
        arguments = ("-m", "tests.channels.discord.child", json.dumps(dict(server.settings)), str(state))
        child = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=asyncio.subprocess.PIPE)
        return cls(child)

    async def hand_over(self, *, count: int = 0, ids: Iterable[str] = ()) -> list[str]:
        """Kill the process when it has handed over so many messages, and these; return the ids of all it had."""
        assert self._child.stdout
        handed: list[str] = []
        async with asyncio.timeout(PATIENCE):
            while len(handed) < count or not set(ids) <= set(handed):
                line = await self._child.stdout.readline()
                assert line, "the process ended"
                handed.append(line.decode().strip())
        self._child.kill()
        rest = await self._child.stdout.read()
        await self._child.wait()
        return handed + rest.decode().split()


async def test_messages_survive_kills_in_order(server: DiscordServer, tmp_path: Path) -> None:
    written: dict[str, list[str]] = {"": [], str(CHANNEL): []}

    async def write(count: int) -> None:
        for _ in range(count):
            for place, ids in written.items():
                ids.append(await server.write("hello", place=place))

    handed: list[str] = []
    for count in (4, 7, 31):
        identified = server.gateway.identified
        life = await Life.begin(server, tmp_path)
        await server.gateway.until_identified(identified + 1)
        writing = asyncio.create_task(write(20))
        handed += await life.hand_over(count=count)
        await writing
    life = await Life.begin(server, tmp_path)
    handed += await life.hand_over(ids=[ids[-1] for ids in written.values()])
    once = list(dict.fromkeys(handed))
    for place, ids in written.items():
        channel = place or str(server.direct_channel(7))
        assert [message for message in once if message.startswith(f"{channel}.")] == ids
