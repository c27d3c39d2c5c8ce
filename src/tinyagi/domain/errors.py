"""Every error the product raises on purpose. Each message names the thing and the remedy."""


class TinyAGIError(Exception):
    """Root of the tree: catch it at the edge of a process to print a sentence instead of a stack trace."""


class RefusedRequest(TinyAGIError):
    """The request cannot be granted as it is; nothing was changed. The same request is refused again."""


class InvalidInput(RefusedRequest, ValueError):
    """What was asked cannot be done as asked."""


class ClaimLost(RefusedRequest):
    """The claim is no longer held, because it was recovered, stopped or finished before."""

    def __init__(self, claim_id: str, agent: str) -> None:
        super().__init__(f"Claim {claim_id} on lane {agent} is no longer held. Drop this run's result; it runs again.")
        self.claim_id = claim_id
        self.agent = agent


class DuplicateMessage(RefusedRequest):
    """A message with this id is stored already: the first one counts."""

    def __init__(self, message_id: str) -> None:
        super().__init__(f"Message {message_id} is stored already. Use another messageId to send it again.")
        self.message_id = message_id


class NotFound(RefusedRequest):
    """The row does not exist or is not in the state the operation needs."""


class Conflict(RefusedRequest):
    """Something of the same name is there already, or still in use."""


class StoreError(TinyAGIError):
    """The store cannot be read or written. A refused request is none of these."""


class StoreBusy(StoreError):
    """Another process holds the write lock for longer than the time-out; nothing was written."""


class StoreFull(StoreError):
    """The disk or the quota is full; nothing was written."""


class StoreReadOnly(StoreError):
    """The database or its folder cannot be written."""


class StoreCorrupt(StoreError):
    """The database file is damaged."""


class StoreFailed(StoreError):
    """The disk reported an error before the commit; nothing was written."""


class StatementRefused(StoreError):
    """The database refused what was to be written, such as a broken constraint: a repeat would be refused, too."""


class OutcomeUnknown(StoreError):
    """The commit itself failed, so the write may or may not be there: repeat it with the same messageId."""


class StoreClosed(StoreError):
    """The store was closed; nothing was written."""


class NewerDatabase(StoreError):
    """The database was written by a newer version; it is left untouched."""


class OlderDatabase(StoreError):
    """The database is of an earlier version, and only the daemon brings it to this one; it is left untouched."""


class MigrationFailed(StoreError):
    """The database could not be brought to this version; it is as it was before."""
