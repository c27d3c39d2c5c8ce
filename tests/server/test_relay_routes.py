"""The relay's calls: who may write, which process serves a channel, and how it is."""

import pytest

from tests.server.conftest import Premises
from tests.support.clock import FakeClock
from tinyagi.api.channels import RelayReport
from tinyagi.domain.errors import Conflict
from tinyagi.server.relays import LEASE, Relays


async def test_an_unknown_person_gets_the_same_code_until_the_owner_approves(premises: Premises) -> None:
    person = {"channel": "telegram", "senderId": "7", "sender": "Ada"}

    first = (await premises.http.post("/api/pairing/check", json=person)).json()
    second = (await premises.http.post("/api/pairing/check", json=person)).json()
    await premises.http.post("/api/pairing/approve", json={"code": first["code"]})
    third = (await premises.http.post("/api/pairing/check", json={**person, "sender": "Ada L."})).json()

    assert (first["approved"], first["isNew"], second["isNew"]) == (False, True, False)
    assert first["code"] == second["code"]
    assert third == {"approved": True, "code": None, "isNew": False}
    assert (await premises.http.get("/api/pairing")).json()["approved"][0]["sender"] == "Ada L."


async def test_the_status_shows_what_the_relay_says(premises: Premises) -> None:
    report = {"owner": "one", "connected": True, "account": "@bot", "error": None}
    taken = await premises.http.put("/api/channels/telegram/relay", json=report)
    other = await premises.http.put("/api/channels/telegram/relay", json={**report, "owner": "two"})
    status = (await premises.http.get("/api/status")).json()["channels"]["telegram"]
    await premises.http.request("DELETE", "/api/channels/telegram/relay", params={"owner": "one"})
    released = (await premises.http.get("/api/status")).json()["channels"]

    assert taken.json()["leaseSeconds"] == LEASE.total_seconds()
    assert other.status_code == 409
    assert "tinyagi channel stop telegram" in other.json()["error"]
    assert (status["running"], status["connected"], status["account"]) == (True, True, "@bot")
    assert released == {}


def test_a_silent_relay_is_replaced_after_its_lease() -> None:
    clock = FakeClock()
    relays = Relays(clock)
    one, two = (RelayReport(owner=owner, connected=True) for owner in ("one", "two"))
    relays.report("telegram", one)
    with pytest.raises(Conflict, match="Another process serves telegram"):
        relays.report("telegram", two)
    clock.advance(LEASE)
    relays.report("telegram", two)
    relays.release("telegram", "one")
    assert relays.of("telegram") == two
    relays.release("telegram")
    assert relays.serving() == []


async def test_a_linked_channel_shows_its_code_while_it_waits(premises: Premises) -> None:
    none = (await premises.http.get("/api/channels/whatsapp/link-code")).json()
    folder = premises.home.channels / "whatsapp"
    folder.mkdir()
    (folder / "qr.txt").write_text("2@abc\n")
    code = (await premises.http.get("/api/channels/whatsapp/link-code")).json()

    assert (none, code) == ({"code": None}, {"code": "2@abc"})


async def test_a_schedule_on_a_chat_platform_names_its_chat(premises: Premises) -> None:
    schedule = {"agentId": "coder", "message": "report", "cron": "0 9 * * *", "channel": "telegram"}
    refused = await premises.http.post("/api/schedules", json=schedule)
    added = await premises.http.post("/api/schedules", json={**schedule, "senderId": "7", "label": "daily"})
    changed = await premises.http.put("/api/schedules/daily", json={"senderId": "8"})

    assert refused.status_code == 400
    assert "tinyagi pairing approved" in refused.json()["error"]
    assert added.json()["schedule"]["senderId"] == "7"
    assert changed.json()["schedule"]["senderId"] == "8"
