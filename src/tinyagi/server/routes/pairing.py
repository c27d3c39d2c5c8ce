"""Who may write from a chat: codes are approved or rejected, people are unpaired."""

from dataclasses import asdict
from typing import Annotated

from fastapi import Path

from tinyagi.api.base import Ok
from tinyagi.api.pairing import Approve, ApprovedPairing, Code, PairingApproved, Pairings, PendingPairing
from tinyagi.server.auditing import audited_router
from tinyagi.server.errors import responses
from tinyagi.server.parameters import Name
from tinyagi.server.services import Use

router = audited_router()

SenderId = Annotated[str, Path(min_length=1, max_length=256, description="As the list of approved people has it.")]


@router.get("/api/pairing", tags=["pairing"])
async def list_pairings(services: Use) -> Pairings:
    """Codes that wait for an approval, and who may write."""
    pairing = services.store.pairing
    return Pairings(
        pending=tuple(PendingPairing(**asdict(request)) for request in await pairing.pending()),
        approved=tuple(ApprovedPairing(**asdict(person)) for person in await pairing.approved()),
    )


@router.post("/api/pairing/approve", tags=["pairing"], responses=responses(404))
async def approve_pairing(services: Use, approval: Approve) -> PairingApproved:
    """Let the person who was told this code write."""
    return PairingApproved(entry=ApprovedPairing(**asdict(await services.store.pairing.approve(approval.code))))


@router.delete("/api/pairing/pending/{code}", tags=["pairing"], responses=responses(404))
async def reject_pairing(services: Use, code: Annotated[Code, Path()]) -> Ok:
    """Forget a code; the person gets another one when they write again."""
    await services.store.pairing.reject(code)
    return Ok()


@router.delete("/api/pairing/{channel}/{sender_id:path}", tags=["pairing"], responses=responses(404))
async def unpair(services: Use, channel: Name, sender_id: SenderId) -> Ok:
    """Let a person write no more."""
    await services.store.pairing.unpair(channel, sender_id)
    return Ok()
