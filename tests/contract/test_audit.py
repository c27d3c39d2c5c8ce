"""The audit log: administrative actions, newest first, page by page."""

from tests.support.clock import FakeClock
from tinyagi.store.audit import AuditEntry
from tinyagi.store.store import Store


async def test_an_action_is_recorded_with_actor_target_and_time(store: Store, clock: FakeClock) -> None:
    await store.audit.record("Ada", "agent.delete", "coder")
    clock.now += 5
    await store.audit.record("token:cli", "settings.change", "queue.lease_seconds", "60 to 90")

    assert await store.audit.recent() == (
        AuditEntry(2, clock.now, "token:cli", "settings.change", "queue.lease_seconds", "60 to 90"),
        AuditEntry(1, clock.now - 5, "Ada", "agent.delete", "coder", ""),
    )


async def test_entries_are_paged_by_id(store: Store) -> None:
    for number in range(1, 6):
        await store.audit.record("Ada", "act", str(number))

    assert [entry.target for entry in await store.audit.recent(limit=2)] == ["5", "4"]
    assert [entry.target for entry in await store.audit.recent(before=4, limit=2)] == ["3", "2"]
    assert await store.audit.recent(before=1) == ()
