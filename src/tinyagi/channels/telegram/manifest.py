"""What TinyAGI says about Telegram before it loads Telegram's library."""

from typing import Final

from tinyagi.channels.port import Manifest, Setting
from tinyagi.channels.telegram import utf16

MANIFEST: Final = Manifest(
    id="telegram",
    name="Telegram",
    settings=(
        Setting(
            name="bot_token",
            label="Bot token",
            help="The token that @BotFather shows for your bot, such as 123456789:AAE4…",
            is_secret=True,
            is_required=True,
        ),
        Setting(
            name="api_url",
            label="API address",
            help="Address of the platform's API, for a proxy or a Bot API server of your own.",
        ),
    ),
    steps=(
        "Open https://t.me/BotFather in Telegram and send /newbot.",
        "Choose a name for the bot, then a username that ends in “bot”.",
        "Copy the token from BotFather's answer: it looks like 123456789:AAE4….",
        "For groups only: send /setprivacy to BotFather, choose the bot and Disable, then add the bot to the group.",
    ),
    rules=(
        "Every user of Telegram can find the bot by its username; strangers get a pairing code and nothing else.",
        "Chats with bots are not end-to-end encrypted: Telegram's servers can read them.",
        "Only one program can receive a bot's messages: use a bot of its own for TinyAGI.",
    ),
    text_limit=4_096,
    count=utf16.length,
    receive_limit=20_000_000,
    send_limit=50_000_000,
    typing_seconds=5,
    can_edit=True,
    packages={"telegram": "python-telegram-bot"},
)
