"""What set-up, office and docs say about Discord."""

from typing import Final

from tinyagi.channels.port import Manifest, Setting

TEXT_LIMIT: Final = 2_000
SEND_LIMIT: Final = 10_000_000
TOKEN_PLACE: Final = "https://discord.com/developers/applications → your application → Bot → Reset Token"  # noqa: S105  # a page
INTENT_PLACE: Final = (
    "https://discord.com/developers/applications → your application → Bot → Privileged Gateway Intents → "
    "Message Content Intent"
)

MANIFEST: Final = Manifest(
    id="discord",
    name="Discord",
    settings=(
        Setting("bot_token", "Bot token", f"The bot's token: {TOKEN_PLACE}.", is_secret=True, is_required=True),
        Setting(
            "guild_channels",
            "Server channels",
            "Ids of server channels, separated by commas, where the bot answers mentions and replies to it, in their "
            "threads too. Without it the bot answers direct messages only.",
        ),
        Setting("api_url", "API address", "Address of the platform's API, for a proxy or a server of your own."),
    ),
    steps=(
        "Open https://discord.com/developers/applications, choose New Application and give it a name.",
        "On the page Bot choose Reset Token and copy the token.",
        "To use the bot in server channels, switch on Message Content Intent on the same page.",
        "On the page Installation keep Guild Install with the scopes bot and applications.commands and the permissions "
        "View Channels, Send Messages, Send Messages in Threads, Attach Files and Read Message History; "
        "open the install link and add the bot to a server that you share with the people who will write to it.",
        "For server channels switch on User Settings → Advanced → Developer Mode, then right-click the channel and "
        "choose Copy Channel ID.",
    ),
    rules=(
        "People can write to the bot directly only while they share a server with it and allow direct messages there.",
        "Everybody in a chosen server channel can read the questions and the answers.",
        "Discord drops a repeated delivery for a few minutes only; a text may appear twice if a delivery was "
        "interrupted and is repeated later than that.",
    ),
    text_limit=TEXT_LIMIT,
    receive_limit=20_000_000,
    send_limit=SEND_LIMIT,
    typing_seconds=10,
    can_edit=True,
    is_idempotent=True,
    packages={"discord": "discord.py"},
)
