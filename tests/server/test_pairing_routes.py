"""Pairing over HTTP: codes are approved or rejected, people are unpaired."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from tests.server.conftest import Premises


async def code_of(premises: Premises, sender_id: str, channel: str = "telegram") -> str:
    asked = await premises.store.pairing.ask(channel, sender_id, "Ada")
    assert asked is not None
    return asked[0].code


async def test_a_code_is_listed_and_approved_in_lower_case(premises: Premises) -> None:
    code = await code_of(premises, "4711")

    (pending,) = (await premises.http.get("/api/pairing")).json()["pending"]
    approved = await premises.http.post("/api/pairing/approve", json={"code": code.lower()})
    after = (await premises.http.get("/api/pairing")).json()

    assert pending.keys() == {"code", "channel", "senderId", "sender", "createdAt", "expiresAt"}
    assert (pending["code"], pending["senderId"]) == (code, "4711")
    entry = approved.json()["entry"]
    assert approved.json() == {"ok": True, "entry": entry}
    assert (entry["channel"], entry["senderId"], entry["sender"], entry["approvedCode"]) == (
        "telegram",
        "4711",
        "Ada",
        code,
    )
    assert after == {"pending": [], "approved": [entry]}
    assert await premises.store.pairing.is_approved("telegram", "4711", "Ada")


async def test_a_code_is_rejected(premises: Premises) -> None:
    code = await code_of(premises, "4711")

    rejected = await premises.http.delete(f"/api/pairing/pending/{code}")
    again = await premises.http.delete(f"/api/pairing/pending/{code}")

    assert (rejected.json(), again.status_code) == ({"ok": True}, 404)
    assert (await premises.http.get("/api/pairing")).json() == {"pending": [], "approved": []}


SENDER_IDS: Final[Sequence[str]] = (
    "4711",
    "+49 171@c.us",
    "49171:12@s.whatsapp.net",
    "a/b/c",
    "Zoë?#%",
    "pending",
)


async def test_a_person_is_unpaired_by_any_sender_id(premises: Premises) -> None:
    for sender_id in SENDER_IDS:
        await premises.store.pairing.approve(await code_of(premises, sender_id, "whatsapp"))

        answer = await premises.http.delete(f"/api/pairing/whatsapp/{quote(sender_id, safe='')}")

        assert answer.status_code == 200, answer.text
        assert not await premises.store.pairing.is_approved("whatsapp", sender_id, "Ada")
        assert (await premises.http.delete(f"/api/pairing/whatsapp/{quote(sender_id, safe='')}")).status_code == 404
        entry, *_ = await premises.store.audit.recent()
        assert (entry.action, entry.target) == ("unpair", f"whatsapp/{sender_id}")


INVALID_CODES: Final[Sequence[object]] = (
    {},
    {"code": ""},
    {"code": None},
    {"code": "AB CD"},
    {"code": "A" * 17},
    {"code": 5},
)


async def test_an_invalid_code_is_refused(premises: Premises) -> None:
    for body in INVALID_CODES:
        assert (await premises.http.post("/api/pairing/approve", json=body)).status_code == 400, body


async def test_an_unknown_code_is_not_found(premises: Premises) -> None:
    answer = await premises.http.post("/api/pairing/approve", json={"code": "ABCDEFGH"})

    assert answer.status_code == 404
    assert "ABCDEFGH" in answer.json()["error"]


IMPOSSIBLE_SENDERS: Final[Sequence[tuple[str, int]]] = (
    ("telegram/", 400),
    (f"telegram/{'x' * 257}", 400),
    ("Tele!/4711", 400),
    ("telegram/%ff%00", 404),
    ("pending/%20", 400),
)


async def test_an_impossible_sender_is_refused(premises: Premises) -> None:
    for path, status in IMPOSSIBLE_SENDERS:
        answer = await premises.http.delete(f"/api/pairing/{path}")

        assert answer.status_code == status, (path, answer.text)
        assert answer.json().keys() == {"error"}
