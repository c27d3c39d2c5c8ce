"""The settings of the Discord channel, checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from tinyagi.channels.discord.manifest import TOKEN_PLACE
from tinyagi.channels.port import NotSetUp


@dataclass(frozen=True, slots=True)
class DiscordOptions:
    """What the channel needs to connect."""

    token: str
    chosen: frozenset[int]
    """Ids of the server channels where mentions are answered."""
    api: str | None


def parse(settings: Mapping[str, str]) -> DiscordOptions:
    """Check the settings; raise NotSetUp with the remedy."""
    token = settings.get("bot_token", "").strip()
    if not token:
        raise NotSetUp(f"Discord needs the setting bot_token: {TOKEN_PLACE}.")
    names = [name.strip() for name in settings.get("guild_channels", "").split(",") if name.strip()]
    for name in names:
        if not (name.isascii() and name.isdecimal()):
            raise NotSetUp(
                f"{name!r} in guild_channels is not the id of a Discord channel: right-click the channel and choose "
                "Copy Channel ID (needs User Settings → Advanced → Developer Mode)."
            )
    return DiscordOptions(token, frozenset(map(int, names)), settings.get("api_url", "").strip() or None)
