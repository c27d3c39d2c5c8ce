"""Fixtures for tests of child processes."""

import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tinyagi.providers.process import end_processes, find_run_processes


@pytest.fixture
def run_id() -> Iterator[str]:
    """The id of a new run; the test fails when a process of it is left."""
    run_id = f"{uuid.uuid4().hex}:claim"
    yield run_id
    left = find_run_processes(run_id)
    end_processes(left, timedelta())
    assert left == []
