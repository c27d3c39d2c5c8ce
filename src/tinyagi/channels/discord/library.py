"""The one place that imports discord.py and changes what it keeps for the whole process.

The other modules import `discord` from here.
"""

import warnings

from yarl import URL

with warnings.catch_warnings():
    # For voice, discord.py imports audioop, which Python 3.11 and 3.12 report as deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    import discord
    from discord.gateway import DiscordWebSocket
    from discord.http import Route

__all__ = ["discord", "use_api", "use_gateway_of"]

# Otherwise each client logs that the packages for voice are missing.
discord.VoiceClient.warn_nacl = False
discord.VoiceClient.warn_dave = False


def use_api(address: str) -> None:
    """Send the requests of this process to another server.

    The library has no setting for it: its routes read the class attribute. A process runs one Discord channel.
    """
    Route.BASE = address.rstrip("/")


async def use_gateway_of(client: discord.Client) -> None:
    """Connect to the gateway that the other server names: without shards the library would use Discord's own."""
    _, url, _ = await client.http.get_bot_gateway()
    DiscordWebSocket.DEFAULT_GATEWAY = URL(url)
