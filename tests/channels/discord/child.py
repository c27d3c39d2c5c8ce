"""A channel in a process of its own, which the test kills. Standard output has the id of each message it hands over.

Arguments: the settings as JSON, the folder of its state.
"""

import asyncio
import json
import sys
from pathlib import Path

from tinyagi.channels.discord.channel import DiscordChannel
from tinyagi.channels.port import ChannelMessage


async def main() -> None:
    async def receive(message: ChannelMessage) -> None:
        sys.stdout.write(f"{message.id}\n")
        sys.stdout.flush()

    channel = DiscordChannel(json.loads(sys.argv[1]), Path(sys.argv[2]))
    await channel.connect()
    await channel.receive(receive)


if __name__ == "__main__":
    asyncio.run(main())
