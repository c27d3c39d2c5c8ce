"""The calls that channels make: who may write, responses to deliver, files, and the relay's report about itself."""

from collections.abc import Sequence
from pathlib import Path

from tinyagi.api.base import Ok
from tinyagi.api.channels import (
    ApprovedPairing,
    CheckSender,
    LinkCode,
    PairingApproved,
    Pairings,
    RelayAccepted,
    RelayReport,
    SenderChecked,
)
from tinyagi.api.files import FileStored
from tinyagi.api.messages import (
    Delivered,
    DeliveryFailed,
    DeliveryNoted,
    PendingResponse,
    ResponseRow,
    ResponseSent,
    SendResponse,
)
from tinyagi.client.calls import Calls
from tinyagi.client.transport import segment


class PairingCalls(Calls):
    async def all(self) -> Pairings:
        return await self._transport.get("/api/pairing", Pairings)

    async def check(self, channel: str, sender_id: str, sender: str) -> SenderChecked:
        """Check whether a person may write; someone unknown gets a code."""
        person = CheckSender(channel=channel, sender_id=sender_id, sender=sender)
        return await self._transport.post("/api/pairing/check", SenderChecked, person)

    async def approve(self, code: str) -> ApprovedPairing:
        return (await self._transport.post("/api/pairing/approve", PairingApproved, {"code": code})).entry

    async def reject(self, code: str) -> None:
        """Delete a pending code without approving it."""
        await self._transport.delete(f"/api/pairing/pending/{segment(code)}", Ok)

    async def unpair(self, channel: str, sender_id: str) -> None:
        await self._transport.delete(f"/api/pairing/{segment(channel)}/{segment(sender_id)}", Ok)


class ResponseCalls(Calls):
    async def recent(self, *, limit: int | None = None) -> list[ResponseRow]:
        """List recent responses, newest first."""
        return await self._transport.get("/api/responses", list[ResponseRow], limit=limit)

    async def pending(self, channel: str, *, limit: int | None = None) -> list[PendingResponse]:
        """List the responses that the channel should deliver, oldest first."""
        return await self._transport.get("/api/responses/pending", list[PendingResponse], channel=channel, limit=limit)

    async def send(self, response: SendResponse) -> ResponseSent:
        """Send a person a response that does not answer a message."""
        return await self._transport.post("/api/responses", ResponseSent, response)

    async def ack(self, response: int) -> None:
        await self._transport.post(f"/api/responses/{segment(response)}/ack", Ok)

    async def ack_all(self, responses: Sequence[int]) -> None:
        """Acknowledge several responses by one call; those that were given up meanwhile are skipped."""
        await self._transport.post("/api/responses/ack", Ok, Delivered(ids=tuple(responses)))

    async def fail(
        self, response: int, reason: str, *, is_final: bool = False, retry_after: float | None = None
    ) -> DeliveryNoted:
        """Report a failed delivery; unless it is final, it is retried later, up to the last attempt."""
        body = DeliveryFailed(reason=reason, is_final=is_final, retry_after_seconds=retry_after)
        return await self._transport.post(f"/api/responses/{segment(response)}/fail", DeliveryNoted, body)


class FileCalls(Calls):
    async def store(self, file: Path, name: str) -> FileStored:
        """Store a file for the `files` of a message."""
        return await self._transport.upload("/api/files", FileStored, file, name=name)

    async def fetch(self, path: str, target: Path) -> int:
        """Write a file of the daemon's files folder, such as an attachment, to `target`; return its size."""
        return await self._transport.download("/api/files", target, path=path)


class RelayCalls(Calls):
    async def report(self, channel: str, report: RelayReport) -> RelayAccepted:
        """Take or renew the right to deliver a channel's responses; ConflictError means that another process has it."""
        return await self._transport.put(_relay_path(channel), RelayAccepted, report)

    async def release(self, channel: str, owner: str) -> None:
        await self._transport.delete(_relay_path(channel), Ok, owner=owner)

    async def link_code(self, channel: str) -> str | None:
        """The QR code to scan with the phone, while a linked channel waits for it."""
        return (await self._transport.get(f"/api/channels/{segment(channel)}/link-code", LinkCode)).code


def _relay_path(channel: str) -> str:
    return f"/api/channels/{segment(channel)}/relay"
