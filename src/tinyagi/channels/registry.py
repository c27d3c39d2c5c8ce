"""The channels that exist: their manifests, and how one is opened. A platform's library is loaded when it is used."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tinyagi.channels.discord.manifest import MANIFEST as DISCORD
from tinyagi.channels.port import Channel, Manifest, NotSetUp, Setting
from tinyagi.channels.telegram.manifest import MANIFEST as TELEGRAM
from tinyagi.channels.webhook.manifest import MANIFEST as WEBHOOK
from tinyagi.channels.whatsapp.manifest import MANIFEST as WHATSAPP

MANIFESTS: Final[Mapping[str, Manifest]] = {
    manifest.id: manifest for manifest in (DISCORD, TELEGRAM, WEBHOOK, WHATSAPP)
}


def open_channel(name: str, settings: Mapping[str, str], state: Path) -> Channel:
    """The channel with these settings, not connected yet; raise NotSetUp when something is missing."""
    manifest = MANIFESTS[name]
    settings = with_defaults(manifest, settings)
    missing = [
        f"channels.{name}.{one.name}" for one in required_settings(manifest, settings) if not settings.get(one.name)
    ]
    if missing:
        raise NotSetUp(
            f"{manifest.name} is not set up: {', '.join(missing)} is missing. Run: tinyagi channel setup {name}"
        )
    absent = [package for module, package in manifest.packages.items() if find_spec(module) is None]
    if absent:
        raise NotSetUp(f"{manifest.name} needs the package {absent[0]}. Install it: pip install {absent[0]}")
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _open(name, settings, state)


def required_settings(manifest: Manifest, settings: Mapping[str, str]) -> list[Setting]:
    """The settings that a channel cannot do without; those of another mode are not needed."""
    return [one for one in manifest.settings if one.is_required and one.mode in {None, settings.get("mode", one.mode)}]


def with_defaults(manifest: Manifest, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that the manifest lists, with its defaults."""
    values = {one.name: settings.get(one.name) or one.default for one in manifest.settings}
    return {name: value for name, value in values.items() if value is not None}


def _open(name: str, settings: Mapping[str, str], state: Path) -> Channel:
    match name:
        case "telegram":
            from tinyagi.channels.telegram.channel import TelegramChannel

            return TelegramChannel(settings, state)
        case "discord":
            from tinyagi.channels.discord.channel import DiscordChannel

            return DiscordChannel(settings, state)
        case "whatsapp":
            from tinyagi.channels.whatsapp.channel import whatsapp_channel

            return whatsapp_channel(settings, state)
        case _:
            from tinyagi.channels.webhook.channel import WebhookChannel

            return WebhookChannel(settings, state)
