"""The in-chat commands in Discord's menu, and what people choose there as text."""

from collections.abc import Mapping
from typing import Final

from tinyagi.channels.discord.library import discord
from tinyagi.channels.port import COMMANDS

_COMMAND: Final = 1
_TEXT: Final = 3
_IN_SERVERS: Final = 0
_IN_DIRECT_CHATS: Final = 1
_MOST_SIGNS: Final = 100
"""In a command's description."""


def menu(*, in_servers: bool) -> list[dict[str, object]]:
    """The commands as Discord stores them; for direct chats only, unless the bot is used in server channels."""
    contexts = [_IN_SERVERS, _IN_DIRECT_CHATS] if in_servers else [_IN_DIRECT_CHATS]
    return [
        {
            "type": _COMMAND,
            "name": name,
            "description": description[:_MOST_SIGNS],
            "options": _options(name, description),
            "contexts": contexts,
        }
        for name, description in COMMANDS.items()
    ]


def _options(name: str, description: str) -> list[dict[str, object]]:
    """One optional text for a command whose description shows an argument."""
    if f"/{name} " not in description:
        return []
    return [{"type": _TEXT, "name": "agents", "description": "for example @writer", "required": False}]


async def register(client: discord.Client, *, in_servers: bool) -> None:
    """Replace the bot's menu if it differs: Discord limits how often that may be done."""
    application = client.application_id
    if application is None:
        return
    wanted = menu(in_servers=in_servers)
    stored = await client.http.get_global_commands(application)
    if {_shown(command) for command in stored} != {_shown(command) for command in wanted}:
        await client.http.bulk_upsert_global_commands(application, wanted)


def _shown(command: Mapping[str, object]) -> tuple[object, ...]:
    """What people see of a command; Discord adds fields of its own and leaves empty ones out."""
    options, contexts = command.get("options"), command.get("contexts")
    names = (option.get("name") for option in options) if isinstance(options, list) else ()
    places = sorted(contexts) if isinstance(contexts, list) else ()
    return command.get("name"), command.get("description"), tuple(names), tuple(places)


def command_text(interaction: discord.Interaction) -> str:
    """The command as a person would type it."""
    data: Mapping[str, object] = interaction.data or {}
    options = data.get("options")
    values = [str(option.get("value", "")) for option in options] if isinstance(options, list) else []
    return " ".join((f"/{data.get('name')}", *values)).strip()
