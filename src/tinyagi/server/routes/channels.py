"""Channels over HTTP: start and stop them; approve and remove pairings with people."""

from dataclasses import asdict
from typing import Annotated

from fastapi import Path

from tinyagi.api.base import Ok
from tinyagi.api.channels import Approve, ApprovedPairing, ChannelState, Code, PairingApproved, Pairings, PendingPairing
from tinyagi.domain.errors import NotFound
from tinyagi.server.dependencies import Channel, NamePath, Services, ServicesDep
from tinyagi.server.errors import responses
from tinyagi.server.routes.audit import audited_router
from tinyagi.server.routes.daemon import services_router

router = audited_router()

SenderId = Annotated[
    str, Path(min_length=1, max_length=256, description="The `senderId` from the list of approved people.")
]


@router.get("/api/pairing", tags=["pairing"])
async def list_pairings(services: ServicesDep) -> Pairings:
    """List pending pairing codes and approved people."""
    pairing = services.store.pairing
    return Pairings(
        pending=tuple(PendingPairing(**asdict(request)) for request in await pairing.pending()),
        approved=tuple(ApprovedPairing(**asdict(person)) for person in await pairing.approved()),
    )


@router.post("/api/pairing/approve", tags=["pairing"], responses=responses(404))
async def approve_pairing(services: ServicesDep, approval: Approve) -> PairingApproved:
    """Approve a pairing code: the person who got it may write."""
    return PairingApproved(entry=ApprovedPairing(**asdict(await services.store.pairing.approve(approval.code))))


@router.delete("/api/pairing/pending/{code}", tags=["pairing"], responses=responses(404))
async def reject_pairing(services: ServicesDep, code: Annotated[Code, Path()]) -> Ok:
    """Reject a pairing code; the person gets a new one when they write again."""
    await services.store.pairing.reject(code)
    return Ok()


@router.delete("/api/pairing/{channel}/{sender_id:path}", tags=["pairing"], responses=responses(404))
async def unpair(services: ServicesDep, channel: NamePath, sender_id: SenderId) -> Ok:
    """Remove a person's approval."""
    await services.store.pairing.unpair(channel, sender_id)
    return Ok()


@services_router.post("/api/services/channel/{channel}/start", tags=["services"], responses=responses(404))
async def start_channel(services: ServicesDep, channel: NamePath) -> ChannelState:
    """Start a channel."""
    found = _channel(services, channel)
    await found.start()
    return ChannelState(channel=channel, running=found.running)


@services_router.post("/api/services/channel/{channel}/stop", tags=["services"], responses=responses(404))
async def stop_channel(services: ServicesDep, channel: NamePath) -> ChannelState:
    """Stop a channel; its responses wait."""
    found = _channel(services, channel)
    await found.stop()
    return ChannelState(channel=channel, running=found.running)


@services_router.post("/api/services/channel/{channel}/restart", tags=["services"], responses=responses(404))
async def restart_channel(services: ServicesDep, channel: NamePath) -> ChannelState:
    """Restart a channel."""
    found = _channel(services, channel)
    await found.stop()
    await found.start()
    return ChannelState(channel=channel, running=found.running)


def _channel(services: Services, channel: str) -> Channel:
    found = services.channels.get(channel)
    if found is None:
        known = ", ".join(services.channels) or "none"
        raise NotFound(f"This daemon does not run the channel {channel}; it runs: {known}. See channels.enabled.")
    return found
