"""What the tests of child processes share."""

import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tinyagi.providers.children import end, find_run


@pytest.fixture
def run_id() -> Iterator[str]:
    """A run of its own; the test fails when a process of it is left."""
    run_id = f"{uuid.uuid4().hex}:claim"
    yield run_id
    left = find_run(run_id)
    end(left, timedelta())
    assert left == []
