"""The daemon and its channels: restarted, started, stopped."""

from fastapi import Request

from tinyagi.api.services import Applied, ChannelState, Restarting
from tinyagi.domain.errors import NotFound
from tinyagi.server.auditing import audited_router, tell
from tinyagi.server.errors import responses
from tinyagi.server.parameters import Name
from tinyagi.server.services import Channel, Services, Use

router = audited_router()


@router.post("/api/services/restart", tags=["services"])
async def restart_daemon(services: Use) -> Restarting:
    """Finish what runs, then come back with the settings of that moment."""
    services.daemon.restart()
    return Restarting()


@router.post("/api/services/apply", tags=["services"])
async def apply_settings(services: Use, request: Request) -> Applied:
    """Restart, but only when settings have changed that count after a restart."""
    changed = services.settings.needs_restart
    if changed:
        services.daemon.restart()
    tell(request, ", ".join(changed))
    return Applied(restarted=bool(changed), needs_restart=changed)


@router.post("/api/services/channel/{channel}/start", tags=["services"], responses=responses(404))
async def start_channel(services: Use, channel: Name) -> ChannelState:
    """Let a channel receive and deliver."""
    found = _channel(services, channel)
    await found.start()
    return ChannelState(channel=channel, running=found.running)


@router.post("/api/services/channel/{channel}/stop", tags=["services"], responses=responses(404))
async def stop_channel(services: Use, channel: Name) -> ChannelState:
    """Let a channel receive and deliver no more; answers wait."""
    found = _channel(services, channel)
    await found.stop()
    return ChannelState(channel=channel, running=found.running)


@router.post("/api/services/channel/{channel}/restart", tags=["services"], responses=responses(404))
async def restart_channel(services: Use, channel: Name) -> ChannelState:
    """Stop a channel and start it again."""
    found = _channel(services, channel)
    await found.stop()
    await found.start()
    return ChannelState(channel=channel, running=found.running)


def _channel(services: Services, channel: str) -> Channel:
    found = services.channels.get(channel)
    if found is None:
        known = ", ".join(services.channels) or "none"
        raise NotFound(f"This daemon runs no channel {channel}; it runs: {known}. See channels.enabled.")
    return found
