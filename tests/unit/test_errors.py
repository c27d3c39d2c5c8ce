"""The tree of errors: refused requests are distinct from failures of the store."""

import pytest

from tinyagi.domain.errors import (
    ClaimLost,
    Conflict,
    DuplicateMessage,
    InvalidInput,
    NotFound,
    RefusedRequest,
    StoreBusy,
    StoreError,
    TinyAGIError,
)
from tinyagi.server.errors import status_of

REFUSALS = [
    (InvalidInput("no channel"), 400),
    (NotFound("no task"), 404),
    (Conflict("taken"), 409),
    (DuplicateMessage("m1"), 409),
    (ClaimLost("claim_1", "coder"), 409),
]


@pytest.mark.parametrize(("error", "status"), REFUSALS, ids=lambda value: type(value).__name__)
def test_a_refused_request_is_not_a_store_error(error: TinyAGIError, status: int) -> None:
    assert isinstance(error, RefusedRequest)
    assert not isinstance(error, StoreError)
    assert status_of(error) == status


def test_a_busy_store_is_not_a_refused_request() -> None:
    assert not isinstance(StoreBusy("locked"), RefusedRequest)
    assert status_of(StoreBusy("locked")) == 503
