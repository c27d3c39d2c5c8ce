"""`tinyagi channel`: sets up, starts, stops and shows chat channels."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tinyagi.cli.context import call_daemon, edit_settings, installation
from tinyagi.cli.options import Json, Yes, examples
from tinyagi.cli.terminal import WrongCall, confirm, note, option_or_prompt, print_json, print_table, say
from tinyagi.domain.messages import PLATFORM_CHANNELS
from tinyagi.domain.texts import one_line
from tinyagi.settings.environment import bot_token, snapshot

if TYPE_CHECKING:
    from tinyagi.api.daemon import ChannelStatus
    from tinyagi.channels.port import Channel, Manifest, Setting
    from tinyagi.cli.settings_backend import SettingsBackend
    from tinyagi.client.client import AsyncClient
    from tinyagi.settings.model import Settings

app = typer.Typer(help="Chat channels: Telegram, Discord, WhatsApp, webhooks.", no_args_is_help=True)

KNOWN: Final = tuple(sorted(PLATFORM_CHANNELS))
LINKED: Final = "linked"
LOGIN_SECONDS: Final = 60
LINK_SECONDS: Final = 200
"""A person has to fetch a phone and scan a code."""
PROGRESS: Final = ("off", "typing", "edits")

ChannelArgument = Annotated[str, typer.Argument(help=", ".join(KNOWN))]
AnyChannel = Annotated[str | None, typer.Argument(help=", ".join(KNOWN))]


@app.command(
    "setup",
    epilog=examples(
        "tinyagi channel setup telegram",
        "tinyagi channel setup telegram --token 123456789:AAE4…",
        "echo $TOKEN | tinyagi channel setup discord --token -",
    ),
)
def setup(
    ctx: typer.Context,
    channel: AnyChannel = None,
    bot_token: Annotated[
        str | None, typer.Option("--bot-token", "--token", help="telegram, discord: the bot's token; - reads stdin.")
    ] = None,
    guild_channels: Annotated[str | None, typer.Option(help="discord: ids of server channels for mentions.")] = None,
    mode: Annotated[str | None, typer.Option(help="whatsapp: cloud or linked.")] = None,
    phone_number_id: Annotated[str | None, typer.Option(help="whatsapp cloud: the id of the number.")] = None,
    access_token: Annotated[str | None, typer.Option(help="whatsapp cloud: the access token; - reads stdin.")] = None,
    app_secret: Annotated[str | None, typer.Option(help="whatsapp cloud: the app secret; - reads stdin.")] = None,
    verify_token: Annotated[str | None, typer.Option(help="whatsapp cloud: a text you choose; - reads stdin.")] = None,
    secret: Annotated[str | None, typer.Option(help="webhook: the shared secret, whsec_…; - reads stdin.")] = None,
    url: Annotated[str | None, typer.Option("--url", help="webhook: where answers are sent.")] = None,
    listen_host: Annotated[str | None, typer.Option(help="whatsapp cloud, webhook: the address to listen on.")] = None,
    listen_port: Annotated[str | None, typer.Option(help="whatsapp cloud, webhook: the port to listen on.")] = None,
    api_url: Annotated[
        str | None, typer.Option(help="The platform's API, for a proxy or a server of your own.")
    ] = None,
    progress: Annotated[str | None, typer.Option(help=f"What a waiting person sees: {', '.join(PROGRESS)}.")] = None,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Log in once before storing.")] = True,
    start: Annotated[bool, typer.Option("--start/--no-start", help="Start it, now and with the daemon.")] = True,
    test_to: Annotated[str | None, typer.Option(help="Send a test message to this paired sender id.")] = None,
) -> None:
    """Connect a chat platform: says how to get its token, checks it, stores it and starts the channel."""
    from tinyagi.channels.registry import MANIFESTS

    name = option_or_prompt(channel, "CHANNEL", "Which channel", choices=KNOWN)
    given = {
        "bot_token": bot_token,
        "guild_channels": guild_channels,
        "mode": mode,
        "phone_number_id": phone_number_id,
        "access_token": access_token,
        "app_secret": app_secret,
        "verify_token": verify_token,
        "secret": secret,
        "url": url,
        "listen_host": listen_host,
        "listen_port": listen_port,
        "api_url": api_url,
    }
    if progress is not None and progress not in PROGRESS:
        raise WrongCall(f"--progress: {one_line(progress)!r} is not one of {', '.join(PROGRESS)}.")
    manifest = MANIFESTS[name]
    values = _answers(ctx, manifest, given)
    if check:
        say(f"Connected to {manifest.name} as {_check(ctx, name, values)}.")
    stored = {**values, **({} if progress is None else {"progress": progress})}
    edit_settings(ctx, lambda backend: _store(backend, name, stored, is_enabled=start))
    say(f"Stored the settings of {manifest.name}.")
    if start:
        _start_after_setup(ctx, name)
    if test_to is not None:
        _send_test(ctx, name, test_to)


def _answers(ctx: typer.Context, manifest: "Manifest", given: Mapping[str, str | None]) -> dict[str, str]:
    """The settings: flags first, then what is stored, then prompts for required ones."""
    from tinyagi.channels.registry import with_defaults

    known = {one.name for one in manifest.settings}
    foreign = [name for name, value in given.items() if value is not None and name not in known]
    if foreign:
        raise WrongCall(f"--{foreign[0].replace('_', '-')} is not a setting of {manifest.name}.")
    values = {name: _from_stdin(name, value) for name, value in given.items() if value is not None}
    stored = _settings(ctx).channels.values_of(manifest.id)
    current = {one.name: stored[one.name] for one in manifest.settings if one.name in stored}
    missing = [one for one in _needed(manifest, {**current, **values}) if one.name not in {**current, **values}]
    if missing:
        for number, step in enumerate(manifest.steps, 1):
            note(f"{number}. {step}")
        for rule in manifest.rules:
            note(f"Note: {rule}")
    for setting in missing:
        values[setting.name] = _ask(setting)
    return {**current, **values} if values else with_defaults(manifest, current)


def _needed(manifest: "Manifest", values: Mapping[str, str]) -> "list[Setting]":
    from tinyagi.channels.registry import required_settings

    return required_settings(manifest, values)


def _ask(setting: "Setting") -> str:
    option = f"--{setting.name.replace('_', '-')}"
    answer = option_or_prompt(None, option, setting.label, hidden=setting.is_secret).strip()
    if not answer:
        raise WrongCall(f"{option} is empty: {setting.help}.")
    return answer


def _from_stdin(name: str, value: str) -> str:
    if value != "-":
        return value.strip()
    line = sys.stdin.readline().strip()
    if not line:
        raise WrongCall(f"--{name.replace('_', '-')}: there is nothing on stdin.")
    return line


def _check(ctx: typer.Context, name: str, values: Mapping[str, str]) -> str:
    """Log in once and return the account's name; raise NotSetUp or ChannelError with the remedy."""
    import asyncio

    from rich.console import Console

    from tinyagi.channels.registry import open_channel
    from tinyagi.client.errors import NotRunning

    home = installation(ctx).home
    home.prepare()
    links_phone = values.get("mode") == LINKED
    seconds = LINK_SECONDS if links_phone else LOGIN_SECONDS
    # A linked phone's session is kept, so it is made where the channel looks for it.
    state = home.channels / name if links_phone else home.channels / name / "check"
    with suppress(NotRunning):
        # Two processes must not use one account or one port.
        call_daemon(ctx, lambda client: client.services.channel(name, "stop"))

    async def log_in() -> str:
        channel = open_channel(name, values, state)
        if links_phone:
            _show_codes(channel)
        try:
            async with asyncio.timeout(seconds):
                return await channel.connect()
        except TimeoutError:
            raise WrongCall(
                f"The platform did not answer within {seconds} s. Check the network, or add --no-check."
            ) from None
        finally:
            await channel.close()

    with Console(stderr=True).status("Logging in"):
        return asyncio.run(log_in())


def _show_codes(channel: "Channel") -> None:
    """Print each QR code that links the phone."""
    from tinyagi.channels.whatsapp.linked import LinkedChannel
    from tinyagi.channels.whatsapp.qr import half_blocks

    if isinstance(channel, LinkedChannel):
        note("Scan this code on the phone: WhatsApp, Linked devices, Link a device.")
        channel.on_qr = lambda code: typer.echo(half_blocks(code), err=True)


async def _store(backend: "SettingsBackend", name: str, values: Mapping[str, object], *, is_enabled: bool) -> None:
    enabled = await _enabled(backend)
    names = [*enabled, name] if is_enabled and name not in enabled else enabled
    await backend.update({"channels": {"enabled": names, name: dict(values)}})


async def _enabled(backend: "SettingsBackend") -> list[str]:
    channels = (await backend.settings()).get("channels")
    listed = channels.get("enabled") if isinstance(channels, dict) else None
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []


def _start_after_setup(ctx: typer.Context, name: str) -> None:
    from tinyagi.client.errors import NotRunning

    try:
        call_daemon(ctx, lambda client: client.services.channel(name, "restart"))
    except NotRunning:
        say("The daemon is not running; the channel starts with it: tinyagi start")
        return
    say("The channel runs. Write to it; the first message gets a code. Approve it: tinyagi pairing approve CODE")


def _send_test(ctx: typer.Context, name: str, sender_id: str) -> None:
    from tinyagi.api.messages import SendResponse

    async def send(client: "AsyncClient") -> None:
        people = (await client.pairing.all()).approved
        person = next((one for one in people if (one.channel, one.sender_id) == (name, sender_id)), None)
        if person is None:
            raise WrongCall(f"{sender_id} is not paired on {name}. See: tinyagi pairing approved")
        text = "This is a test message: the channel works."
        await client.responses.send(SendResponse(channel=name, sender=person.sender, sender_id=sender_id, message=text))

    call_daemon(ctx, send)
    say(f"Sent a test message to {sender_id}.")


@app.command("list", epilog=examples("tinyagi channel list", "tinyagi channel list --json"))
def list_channels(ctx: typer.Context, as_json: Json = False) -> None:
    """List the channels, whether they are connected, and the last error of each."""
    channels = call_daemon(ctx, lambda client: client.status()).channels
    if as_json:
        print_json({name: status.model_dump(mode="json", by_alias=True) for name, status in channels.items()})
        return
    rows = [(name, state_of(status), status.account, status.error or "") for name, status in channels.items()]
    print_table(
        ("channel!", "state!", "account", "??error…"),
        rows,
        empty="No channel is set up. Connect one: tinyagi channel setup telegram",
    )


def state_of(status: "ChannelStatus") -> str:
    """The state of a channel in one word."""
    if status.connected:
        return "connected"
    if status.running:
        return "failing" if status.error else "connecting"
    return "failed" if status.error else "stopped"


@app.command("start", epilog=examples("tinyagi channel start telegram"))
def start_channel(ctx: typer.Context, channel: ChannelArgument) -> None:
    """Start a channel, now and with the daemon."""
    name = _set_up(ctx, channel)
    edit_settings(ctx, lambda backend: _switch(backend, name, is_enabled=True))
    call_daemon(ctx, lambda client: client.services.channel(name, "start"))
    say(f"Started {name}. Its state: tinyagi channel list")


@app.command("stop", epilog=examples("tinyagi channel stop telegram"))
def stop_channel(ctx: typer.Context, channel: ChannelArgument) -> None:
    """Stop a channel, now and with the daemon; its answers wait."""
    name = option_or_prompt(channel, "CHANNEL", "Which channel", choices=KNOWN)
    edit_settings(ctx, lambda backend: _switch(backend, name, is_enabled=False))
    call_daemon(ctx, lambda client: client.services.channel(name, "stop"))
    say(f"Stopped {name}. Its answers wait until it starts again.")


@app.command("restart", epilog=examples("tinyagi channel restart telegram"))
def restart_channel(ctx: typer.Context, channel: ChannelArgument) -> None:
    """Restart a channel with its current settings."""
    name = _set_up(ctx, channel)
    call_daemon(ctx, lambda client: client.services.channel(name, "restart"))
    say(f"Restarted {name}. Its state: tinyagi channel list")


@app.command("reset", epilog=examples("tinyagi channel reset telegram --yes"))
def reset(ctx: typer.Context, channel: ChannelArgument, yes: Yes = False) -> None:
    """Stop a channel and remove its stored settings and secrets. Paired people stay paired."""
    from tinyagi.client.errors import NotRunning

    async def forget(backend: "SettingsBackend") -> None:
        enabled = [one for one in await _enabled(backend) if one != name]
        await backend.update({"channels": {"enabled": enabled, name: None}})

    name = option_or_prompt(channel, "CHANNEL", "Which channel", choices=KNOWN)
    confirm(f"Stop {name} and remove all its stored settings?", yes=yes)
    edit_settings(ctx, forget)
    with suppress(NotRunning):
        call_daemon(ctx, lambda client: client.services.channel(name, "stop"))
    say(f"Removed the settings of {name}.")


@app.command("run", epilog=examples("tinyagi --url https://agents.example.org channel run telegram"))
def run(
    ctx: typer.Context,
    channel: ChannelArgument,
    owned: Annotated[bool, typer.Option("--owned", hidden=True)] = False,
) -> None:
    """Serve a channel from this process, for a daemon on another machine: its settings here, --url and the token there.

    The daemon starts its own channels; this command is for the others. TINYAGI_API_TOKEN holds the daemon's token.
    """
    import logging

    from tinyagi.channels.port import NotSetUp
    from tinyagi.channels.process import serve_channel
    from tinyagi.channels.progress import ProgressMode
    from tinyagi.daemon.channel_process import NEEDS_FIX

    name = option_or_prompt(channel, "CHANNEL", "Which channel", choices=KNOWN)
    place = installation(ctx)
    place.home.prepare()
    address = place.address()
    logging.basicConfig(format="%(message)s" if owned else "%(asctime)s %(message)s", level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    values = _values(ctx, name)
    try:
        serve_channel(
            name,
            values,
            place.home.channels / name,
            url=address.url,
            token=address.token,
            mode=ProgressMode(values.get("progress", ProgressMode.TYPING)),
            owned=owned,
        )
    except NotSetUp as error:
        if not owned:
            raise
        typer.echo(str(error), err=True)
        raise typer.Exit(NEEDS_FIX) from error


async def _switch(backend: "SettingsBackend", name: str, *, is_enabled: bool) -> None:
    others = [one for one in await _enabled(backend) if one != name]
    await backend.update({"channels": {"enabled": [*others, name] if is_enabled else others}})


def _set_up(ctx: typer.Context, channel: str) -> str:
    """The name of a channel that is set up; raise WrongCall."""
    from tinyagi.channels.registry import MANIFESTS, required_settings

    name = option_or_prompt(channel, "CHANNEL", "Which channel", choices=KNOWN)
    values = _values(ctx, name)
    if any(one.name not in values for one in required_settings(MANIFESTS[name], values)):
        raise WrongCall(f"{MANIFESTS[name].name} is not set up. Run: tinyagi channel setup {name}")
    return name


def _values(ctx: typer.Context, name: str) -> dict[str, str]:
    """The settings of a channel; a token in the environment takes precedence."""
    values = _settings(ctx).channels.values_of(name)
    token = bot_token(snapshot(), name, values.get("bot_token"))
    return values if token is None else {**values, "bot_token": token}


def _settings(ctx: typer.Context) -> "Settings":
    """The stored settings of this machine, with secrets."""
    from tinyagi.settings.model import Settings
    from tinyagi.settings.settings_file import SettingsFile

    loaded = SettingsFile(installation(ctx).home).read()
    return Settings() if loaded is None else loaded.settings
