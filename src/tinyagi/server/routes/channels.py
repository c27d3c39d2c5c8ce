"""Channels over HTTP: start and stop them; approve and remove pairings with people."""

import asyncio
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query

from tinyagi.api.base import Ok
from tinyagi.api.channels import (
    Approve,
    ApprovedPairing,
    ChannelState,
    CheckSender,
    Code,
    LinkCode,
    PairingApproved,
    Pairings,
    PendingPairing,
    RelayAccepted,
    RelayReport,
    SenderChecked,
)
from tinyagi.domain.errors import NotFound
from tinyagi.server.dependencies import ChannelRunner, NamePath, Services, ServicesDep
from tinyagi.server.errors import responses
from tinyagi.server.relays import LEASE
from tinyagi.server.routes.audit import audited_router
from tinyagi.server.routes.daemon import services_router

router = audited_router()
relay_router = APIRouter()
"""Calls of relays, too frequent for the audit log."""

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


@relay_router.post("/api/pairing/check", tags=["pairing"])
async def check_sender(services: ServicesDep, person: CheckSender) -> SenderChecked:
    """Check whether a person may write; someone unknown gets a code, once, until it expires."""
    pairing = services.store.pairing
    if await pairing.is_approved(person.channel, person.sender_id, person.sender):
        return SenderChecked(approved=True, code=None, is_new=False)
    asked = await pairing.ask(person.channel, person.sender_id, person.sender)
    if asked is None:
        return SenderChecked(approved=False, code=None, is_new=False)
    request, is_new = asked
    return SenderChecked(approved=False, code=request.code, is_new=is_new)


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


@relay_router.put("/api/channels/{channel}/relay", tags=["services"], responses=responses(409))
async def report_relay(services: ServicesDep, channel: NamePath, report: RelayReport) -> RelayAccepted:
    """Take or renew the right to deliver a channel's responses, and say how the channel is."""
    services.relays.report(channel, report)
    return RelayAccepted(lease_seconds=LEASE.total_seconds())


@relay_router.delete("/api/channels/{channel}/relay", tags=["services"])
async def release_relay(services: ServicesDep, channel: NamePath, owner: Annotated[str, Query(max_length=128)]) -> Ok:
    """Give the right back at the end of the process, so that the next one starts at once."""
    services.relays.release(channel, owner)
    return Ok()


@router.get("/api/channels/{channel}/link-code", tags=["services"])
async def read_link_code(services: ServicesDep, channel: NamePath) -> LinkCode:
    """Read the QR code to scan with the phone, while a linked channel waits for it."""
    path = services.home.channels / channel / "qr.txt"
    try:
        code = await asyncio.to_thread(path.read_text, "utf-8")
    except FileNotFoundError:
        return LinkCode(code=None)
    return LinkCode(code=code.strip() or None)


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


def _channel(services: Services, channel: str) -> ChannelRunner:
    found = services.channels.get(channel)
    if found is None:
        known = ", ".join(services.channels) or "none"
        raise NotFound(f"There is no channel {channel}. There are: {known}.")
    return found
