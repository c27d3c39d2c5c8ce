"""`tinyagi channel`: chats of people. Channels themselves run in the daemon."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.asking import answer, confirm
from tinyagi.cli.context import ask, at_desk
from tinyagi.cli.options import Yes, examples
from tinyagi.cli.screen import note, say

if TYPE_CHECKING:
    from tinyagi.cli.settings_desk import SettingsDesk

app = typer.Typer(help="Connect chats of people; start and stop them.", no_args_is_help=True)

KNOWN: Final = ("discord", "telegram", "whatsapp")
TOKENS: Final[Mapping[str, str]] = {
    "discord": "The bot's token, from https://discord.com/developers/applications",
    "telegram": "The bot's token, from @BotFather",
}

Channel = Annotated[str, typer.Argument(help=", ".join(KNOWN))]


@app.command("setup", epilog=examples("tinyagi channel setup", "tinyagi channel setup telegram --token - < token.txt"))
def setup(
    ctx: typer.Context,
    channel: Annotated[str | None, typer.Argument(help=", ".join(KNOWN))] = None,
    token: Annotated[str | None, typer.Option(help="The bot's token; - reads it from stdin.")] = None,
    enable: Annotated[bool, typer.Option("--enable/--no-enable", help="Let it run with the daemon.")] = True,
) -> None:
    """Store what a channel needs and let it run; asks for what the options leave open."""
    channel = answer(channel, "CHANNEL", "Which channel", choices=KNOWN)
    secret = None
    if channel in TOKENS:
        secret = _from_stdin() if token == "-" else answer(token, "--token", TOKENS[channel], hidden=True)  # noqa: S105

    async def store(desk: "SettingsDesk") -> bool:
        enabled = await _enabled(desk)
        listed = [*enabled, channel] if enable and channel not in enabled else enabled
        patch: dict[str, object] = {"enabled": listed if enable else [name for name in listed if name != channel]}
        if secret:
            patch[channel] = {"bot_token": secret}
        await desk.update({"channels": patch})
        return desk.is_live

    is_live = at_desk(ctx, store)
    say(f"{channel} is set up{' and enabled' if enable else ', but not enabled'}.")
    note("Restart the daemon to use it: tinyagi restart" if is_live else "Start the daemon to use it: tinyagi start")


@app.command("start", epilog=examples("tinyagi channel start telegram"))
def start(ctx: typer.Context, channel: Channel) -> None:
    """Let a channel receive and deliver."""
    ask(ctx, lambda client: client.services.channel(channel, "start"))
    say(f"{channel} runs.")


@app.command("stop", epilog=examples("tinyagi channel stop telegram"))
def stop(ctx: typer.Context, channel: Channel) -> None:
    """Let a channel receive and deliver no more; answers wait."""
    ask(ctx, lambda client: client.services.channel(channel, "stop"))
    say(f"{channel} is stopped; answers wait for it.")


@app.command("restart", epilog=examples("tinyagi channel restart telegram"))
def restart(ctx: typer.Context, channel: Channel) -> None:
    """Stop a channel and start it again."""
    ask(ctx, lambda client: client.services.channel(channel, "restart"))
    say(f"{channel} runs again.")


@app.command("reset", epilog=examples("tinyagi channel reset telegram --yes"))
def reset(ctx: typer.Context, channel: Channel, yes: Yes = False) -> None:
    """Forget a channel: its secrets, its settings, and that it was enabled."""

    async def forget(desk: "SettingsDesk") -> None:
        enabled = [name for name in await _enabled(desk) if name != channel]
        await desk.update({"channels": {"enabled": enabled, channel: None}})

    answer(channel, "CHANNEL", "Which channel", choices=KNOWN)
    confirm(f"Forget all that is set up for {channel}?", yes=yes)
    at_desk(ctx, forget)
    say(f"{channel} is forgotten. Set it up again: tinyagi channel setup {channel}")


async def _enabled(desk: "SettingsDesk") -> list[str]:
    channels = (await desk.settings()).get("channels")
    listed = channels.get("enabled") if isinstance(channels, dict) else None
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []


def _from_stdin() -> str:
    import sys  # noqa: PLC0415

    return answer(sys.stdin.readline().strip() or None, "--token", "The bot's token")
