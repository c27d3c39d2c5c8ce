"""Schedules over HTTP: times are sent and shown as dates."""

import json
import time
from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.server.conftest import Premises

DAILY = {"agentId": "coder", "message": "report", "cron": "0 9 * * *", "timezone": "Europe/Berlin"}


async def added(premises: Premises, **fields: object) -> dict[str, Any]:
    answer = await premises.http.post("/api/schedules", json={**DAILY, **fields})
    assert answer.status_code == 200, answer.text
    schedule: dict[str, Any] = answer.json()["schedule"]
    return schedule


async def test_a_schedule_is_added_and_listed(premises: Premises) -> None:
    schedule = await added(premises, label="daily")

    assert schedule.keys() == {
        *("id", "label", "agentId", "message", "cron", "runAt", "channel", "sender", "senderId", "enabled"),
        *("timezone", "nextAt", "lastAt", "createdAt", "updatedAt"),
    }
    assert (schedule["channel"], schedule["sender"], schedule["enabled"]) == ("schedule", "Scheduler", True)
    assert (schedule["runAt"], schedule["lastAt"]) == (None, None)
    assert schedule["nextAt"].endswith((":00:00Z", ":00:00.000Z"))
    assert (await premises.http.get("/api/schedules")).json() == [schedule]
    (entry,) = await premises.store.audit.recent()
    assert (entry.action, entry.detail) == ("add_schedule", "daily")


async def test_generated_labels_are_distinct(premises: Premises) -> None:
    first, second = await added(premises), await added(premises)

    assert first["label"].startswith("coder-")
    assert first["label"] != second["label"]


INSTANTS: Final[Sequence[tuple[object, str]]] = (
    ("2130-01-31T09:00:00+01:00", "2130-01-31T08:00:00Z"),
    ("2130-01-31T09:00:00Z", "2130-01-31T09:00:00Z"),
    (5_052_000_000_123, "2130-02-03T05:20:00.123000Z"),
)


async def test_run_at_is_a_date_with_an_offset_or_a_number(premises: Premises) -> None:
    for given, shown in INSTANTS:
        schedule = await added(premises, cron=None, runAt=given)

        assert (schedule["runAt"], schedule["nextAt"], schedule["cron"]) == (shown, shown, "")


INVALID_TIMES: Final[Sequence[dict[str, object]]] = (
    {"runAt": "2130-01-31T09:00:00"},
    {"runAt": "tomorrow"},
    {"runAt": "4000000000"},
    {"runAt": ""},
    {"runAt": 0},
    {"runAt": -1},
    {"runAt": 10**18},
    {"runAt": 10**40},
    {"runAt": 1.5},
    {"runAt": True},
    {"runAt": [1]},
    {"runAt": "0001-01-01T00:00:00+23:00"},
    {"runAt": "9999-12-31T23:59:59-23:00"},
    {"runAt": "2001-01-01T00:00:00Z"},
    {"runAt": "2130-01-31T09:00:00Z", "cron": "0 9 * * *"},
    {},
)


async def test_an_invalid_or_past_time_is_refused(premises: Premises) -> None:
    for fields in INVALID_TIMES:
        answer = await premises.http.post("/api/schedules", json={"agentId": "coder", "message": "x", **fields})

        assert answer.status_code == 400, (fields, answer.text)
        assert answer.json().keys() == {"error"}


INVALID_SCHEDULES: Final[Sequence[dict[str, object]]] = (
    {"agentId": "ghost"},
    {"agentId": ""},
    {"agentId": None},
    {"message": ""},
    {"message": " \n"},
    {"message": "\ud800"},
    {"cron": "x"},
    {"cron": " "},
    {"cron": "61 * * * *"},
    {"cron": "0 0 31 2 *"},
    {"cron": "* " * 200},
    {"label": " "},
    {"label": "x" * 201},
    {"label": "\ud800"},
    {"channel": "Sched!"},
    {"sender": " "},
    {"timezone": "Mars/Base"},
    {"timezone": "../../etc/passwd"},
    {"timezone": "\ud800"},
    {"enabled": "perhaps"},
)


async def test_an_invalid_schedule_is_refused(premises: Premises) -> None:
    schedule = await added(premises)
    for wrong in INVALID_SCHEDULES:
        new = await premises.http.post("/api/schedules", content=json.dumps({**DAILY, **wrong}))
        assert new.status_code == 400, (wrong, new.text)

        if None not in wrong.values():
            changed = await premises.http.put(f"/api/schedules/{schedule['id']}", content=json.dumps(wrong))
            assert changed.status_code == 400, (wrong, changed.text)
    assert (await premises.http.get("/api/schedules")).json() == [schedule]


async def test_a_label_cannot_be_used_twice(premises: Premises) -> None:
    await added(premises, label="daily")
    other = await added(premises, label="weekly")

    new = await premises.http.post("/api/schedules", json={**DAILY, "label": "daily"})
    changed = await premises.http.put(f"/api/schedules/{other['id']}", json={"label": "daily"})

    assert (new.status_code, changed.status_code) == (409, 409)


async def test_a_change_is_merged_into_the_schedule(premises: Premises) -> None:
    schedule = await added(premises, label="daily")
    answer = await premises.http.put(
        f"/api/schedules/{schedule['id']}", json={"message": "hello", "agentId": "dev", "label": None}
    )

    changed = answer.json()["schedule"]
    assert answer.json().keys() == {"ok", "schedule"}
    assert {**changed, "updatedAt": 0} == {**schedule, "message": "hello", "agentId": "dev", "updatedAt": 0}
    entry, _ = await premises.store.audit.recent()
    assert (entry.action, entry.target, entry.detail) == ("change_schedule", schedule["id"], "daily: agent_id, message")


async def test_a_recurring_schedule_can_become_a_one_time_one(premises: Premises) -> None:
    schedule = await added(premises)
    answer = await premises.http.put(
        f"/api/schedules/{schedule['id']}", json={"runAt": "2130-01-31T09:00:00Z", "timezone": None}
    )

    changed = answer.json()["schedule"]
    assert (changed["cron"], changed["runAt"], changed["timezone"]) == ("", "2130-01-31T09:00:00Z", None)


async def test_a_schedule_is_switched_off_and_on(premises: Premises) -> None:
    schedule = await added(premises)
    address = f"/api/schedules/{schedule['id']}"

    off = (await premises.http.put(address, json={"enabled": False})).json()["schedule"]
    on = (await premises.http.put(address, json={"enabled": True})).json()["schedule"]

    assert (off["enabled"], off["nextAt"]) == (False, None)
    assert (on["enabled"], on["nextAt"]) == (True, schedule["nextAt"])


async def test_a_deleted_schedule_is_not_found(premises: Premises) -> None:
    schedule = await added(premises)
    address = f"/api/schedules/{schedule['id']}"

    assert (await premises.http.delete(address)).json() == {"ok": True}
    assert (await premises.http.delete(address)).status_code == 404
    assert (await premises.http.put(address, json={"message": "x"})).status_code == 404
    assert (await premises.http.delete("/api/schedules/%20")).status_code == 404


async def test_a_due_schedule_is_sent_and_records_the_time(premises: Premises) -> None:
    schedule = await added(premises, cron=None, runAt=_in_a_moment())
    await premises.until_event("message_received")
    await premises.drained()

    async def is_over() -> bool:
        (shown,) = (await premises.http.get("/api/schedules")).json()
        return bool(shown["lastAt"] == schedule["runAt"] and not shown["enabled"])

    await premises.until(is_over)
    assert premises.puppet.prompts_of("coder") == ["report"]


def _in_a_moment() -> int:
    return time.time_ns() // 1_000_000 + 1


@pytest.mark.parametrize("channel", ["chatroom", "heartbeat", "board", "internal"])
async def test_a_reserved_channel_is_refused_for_a_schedule(premises: Premises, channel: str) -> None:
    schedule = await added(premises)

    new = await premises.http.post("/api/schedules", json={**DAILY, "channel": channel})
    changed = await premises.http.put(f"/api/schedules/{schedule['id']}", json={"channel": channel})

    assert (new.status_code, changed.status_code) == (400, 400)
    assert "reserved" in new.json()["error"]
    assert (await premises.http.get("/api/schedules")).json() == [schedule]


@pytest.mark.parametrize("label", ["daily", "every morning", "täglich"])
async def test_a_schedule_is_changed_and_deleted_by_its_label(premises: Premises, label: str) -> None:
    await added(premises, label=label)
    other = await added(premises, label="other")

    changed = await premises.http.put(f"/api/schedules/{label}", json={"enabled": False})
    deleted = await premises.http.delete(f"/api/schedules/{label}")

    assert changed.json()["schedule"]["enabled"] is False
    assert deleted.json() == {"ok": True}
    assert (await premises.http.get("/api/schedules")).json() == [other]


async def test_an_id_takes_precedence_over_a_label(premises: Premises) -> None:
    first = await added(premises, label="first")
    await added(premises, label=first["id"])

    await premises.http.delete(f"/api/schedules/{first['id']}")

    (left,) = (await premises.http.get("/api/schedules")).json()
    assert left["label"] == first["id"]
