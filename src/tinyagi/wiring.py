"""Composition root: the only place that names adapters."""

from tinyagi.domain.retry import RetryPolicy
from tinyagi.settings import Home
from tinyagi.store.base import Store
from tinyagi.store.sqlite.store import SqliteStore


async def open_store(home: Home, *, policy: RetryPolicy | None = None) -> Store:
    """Open the home's database, creating or migrating it where needed."""
    return await SqliteStore.open(home.database, policy=policy)
