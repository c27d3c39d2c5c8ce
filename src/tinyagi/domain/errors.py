"""Every error the product raises on purpose. Each message names the thing and the remedy."""


class TinyAGIError(Exception):
    """Root of the tree. The top level of a process catches it and prints a sentence instead of a stack trace."""


class RefusedRequest(TinyAGIError):
    """The request is refused and nothing was changed. Repeating the same request does not help."""


class InvalidInput(RefusedRequest, ValueError):
    """The request itself is invalid."""


class ClaimLost(RefusedRequest):
    """The claim is no longer held: it was recovered, stopped or finished."""

    def __init__(self, claim_id: str, agent: str) -> None:
        super().__init__(f"Claim {claim_id} on lane {agent} is no longer held. Drop this run's result; it runs again.")
        self.claim_id = claim_id
        self.agent = agent


class DuplicateMessage(RefusedRequest):
    """A message with this id is already stored; the first one counts."""

    def __init__(self, message_id: str) -> None:
        super().__init__(f"Message {message_id} is already stored. Use another messageId to send it again.")
        self.message_id = message_id


class NotFound(RefusedRequest):
    """The row does not exist or is not in the state the operation needs."""


class Conflict(RefusedRequest):
    """The name is already taken, or the thing is still in use."""


class StoreError(TinyAGIError):
    """The store cannot be read or written; never raised for a refused request."""


class StoreBusy(StoreError):
    """Another process held the write lock beyond the timeout; nothing was written."""


class StoreFull(StoreError):
    """The disk or the quota is full; nothing was written."""


class StoreReadOnly(StoreError):
    """The database or its folder cannot be written."""


class StoreCorrupt(StoreError):
    """The database file is damaged."""


class StoreFailed(StoreError):
    """The disk reported an error before the commit; nothing was written."""


class StatementRefused(StoreError):
    """The database refused the write, for example for a broken constraint; a repeat would be refused too."""


class OutcomeUnknown(StoreError):
    """The commit itself failed, so the write may or may not be stored; repeat it with the same messageId."""


class StoreClosed(StoreError):
    """The store was closed; nothing was written."""


class NewerDatabase(StoreError):
    """A newer version wrote the database; it is left untouched."""


class OlderDatabase(StoreError):
    """An earlier version wrote the database and only the daemon migrates it; it is left untouched."""


class MigrationFailed(StoreError):
    """The database could not be migrated to this version; it is unchanged."""
