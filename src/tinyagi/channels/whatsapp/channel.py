"""The WhatsApp channel in the mode of the settings."""

from collections.abc import Mapping
from pathlib import Path

from tinyagi.channels.port import Channel, NotSetUp
from tinyagi.channels.whatsapp.cloud import CloudChannel
from tinyagi.channels.whatsapp.manifest import CLOUD, LINKED


def whatsapp_channel(settings: Mapping[str, str], state: Path) -> Channel:
    """Make the channel; raise NotSetUp for an unknown mode, a missing setting or a missing package."""
    mode = settings.get("mode") or CLOUD
    if mode == CLOUD:
        return CloudChannel(settings, state)
    if mode != LINKED:
        raise NotSetUp(f"{mode!r} is not a mode of WhatsApp. Set mode to {CLOUD} or {LINKED}.")
    try:
        from tinyagi.channels.whatsapp.linked import LinkedChannel  # noqa: PLC0415 - only this mode needs the library
    except (ImportError, OSError) as error:
        raise NotSetUp(
            "Linked mode needs neonize and libmagic. Run: pip install 'tinyagi[whatsapp]', and "
            f"apt install libmagic1 (macOS: brew install libmagic). ({error})"
        ) from error
    return LinkedChannel({**settings}, state)
