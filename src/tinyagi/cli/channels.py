"""`tinyagi channel` and `tinyagi pairing`.

Chat channels are not built yet, and the commands say so; `reset` removes stored secrets.
"""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.context import call_daemon, edit_settings
from tinyagi.cli.error_boundary import NotBuilt
from tinyagi.cli.options import Json, Yes, examples
from tinyagi.cli.terminal import confirm, option_or_prompt, print_json, print_table, say, when

if TYPE_CHECKING:
    from tinyagi.cli.settings_backend import SettingsBackend

channel_app = typer.Typer(help="Chat channels: not built yet.", no_args_is_help=True)

KNOWN: Final = ("discord", "telegram", "whatsapp")

ChannelArgument = Annotated[str, typer.Argument(help=", ".join(KNOWN))]
AnyChannel = Annotated[str | None, typer.Argument(help=", ".join(KNOWN))]

pairing_app = typer.Typer(help="Approve people who write from chats.", no_args_is_help=True)

HINT: Final = "People who write to a channel for the first time get a code. Approve it: tinyagi pairing approve CODE"


def _not_built(channel: str | None) -> NotBuilt:
    return NotBuilt(
        f"{channel or 'Channel setup'}: chat channels ({', '.join(KNOWN)}) are not built yet; nothing was changed. "
        'Send messages from the command line, tinyagi send "@agent hello" --wait, or through the API, '
        "POST /api/message."
    )


@channel_app.command("setup", epilog=examples("tinyagi channel setup telegram"))
def setup(channel: AnyChannel = None) -> None:
    """Connect a chat channel. Not built yet."""
    raise _not_built(channel)


@channel_app.command("start", epilog=examples("tinyagi channel start telegram"))
def start(channel: ChannelArgument) -> None:
    """Start a chat channel. Not built yet."""
    raise _not_built(channel)


@channel_app.command("stop", epilog=examples("tinyagi channel stop telegram"))
def stop(channel: ChannelArgument) -> None:
    """Stop a chat channel. Not built yet."""
    raise _not_built(channel)


@channel_app.command("restart", epilog=examples("tinyagi channel restart telegram"))
def restart(channel: ChannelArgument) -> None:
    """Restart a chat channel. Not built yet."""
    raise _not_built(channel)


@channel_app.command("reset", epilog=examples("tinyagi channel reset telegram --yes"))
def reset(ctx: typer.Context, channel: ChannelArgument, yes: Yes = False) -> None:
    """Remove a channel's stored secrets and settings, such as those of an earlier version."""

    async def forget(backend: "SettingsBackend") -> None:
        channels = (await backend.settings()).get("channels")
        listed = channels.get("enabled") if isinstance(channels, dict) else None
        enabled = [name for name in listed if name != channel] if isinstance(listed, list) else []
        await backend.update({"channels": {"enabled": enabled, channel: None}})

    option_or_prompt(channel, "CHANNEL", "Which channel", choices=KNOWN)
    confirm(f"Remove all stored settings of {channel}?", yes=yes)
    edit_settings(ctx, forget)
    say(f"Removed the settings of {channel}.")


@pairing_app.command("list", epilog=examples("tinyagi pairing list"))
def list_pairings(ctx: typer.Context, as_json: Json = False) -> None:
    """List people who may write, and codes that wait for approval."""
    pairings = call_daemon(ctx, lambda client: client.pairing.all())
    if as_json:
        print_json(pairings)
        return
    waiting = [("waits", one.channel, one.sender, one.sender_id, one.code) for one in pairings.pending]
    approved = [("may write", one.channel, one.sender, one.sender_id, "") for one in pairings.approved]
    print_table(
        ("", "channel!", "name", "sender id!", "code!"), waiting + approved, empty=f"No people are paired. {HINT}"
    )


@pairing_app.command("pending", epilog=examples("tinyagi pairing pending --json"))
def pending(ctx: typer.Context, as_json: Json = False) -> None:
    """List codes that wait for approval."""
    people = call_daemon(ctx, lambda client: client.pairing.all()).pending
    if as_json:
        print_json(people)
        return
    rows = [(one.code, one.channel, one.sender, one.sender_id, when(one.expires_at)) for one in people]
    print_table(("code!", "channel!", "name", "sender id!", "expires"), rows, empty=f"No codes are pending. {HINT}")


@pairing_app.command("approved", epilog=examples("tinyagi pairing approved"))
def approved(ctx: typer.Context, as_json: Json = False) -> None:
    """List people who may write."""
    people = call_daemon(ctx, lambda client: client.pairing.all()).approved
    if as_json:
        print_json(people)
        return
    rows = [(one.channel, one.sender, one.sender_id, when(one.approved_at)) for one in people]
    print_table(("channel!", "name", "sender id!", "since"), rows, empty=f"No one may write yet. {HINT}")


@pairing_app.command("approve", epilog=examples("tinyagi pairing approve K7PX2MNQ"))
def approve(
    ctx: typer.Context,
    code: Annotated[str, typer.Argument(help="The code that the person got, in upper or lower case.")],
) -> None:
    """Allow the person with this code to write."""
    person = call_daemon(ctx, lambda client: client.pairing.approve(code))
    say(f"{person.sender} may now write on {person.channel}.")


@pairing_app.command("unpair", epilog=examples("tinyagi pairing unpair telegram 12345 --yes"))
def unpair(
    ctx: typer.Context,
    channel: Annotated[str, typer.Argument(help="discord, telegram, whatsapp, …")],
    sender_id: Annotated[str, typer.Argument(help="As `tinyagi pairing approved` lists it.")],
    yes: Yes = False,
) -> None:
    """Revoke a person's permission to write."""
    confirm(f"Revoke the permission of {sender_id} on {channel} to write?", yes=yes)
    call_daemon(ctx, lambda client: client.pairing.unpair(channel, sender_id))
    say(f"{sender_id} on {channel} may no longer write.")
