"""How tests are divided among processes (`pytest -n auto`): by file, the Spark tests together, the longest first.

Hypothesis examples have no deadline, because their duration depends on the load of the machine.
"""

import os
from typing import Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

SPARK: Final = "tests/pipeline/"
"""These share one Spark session and the lakes of `pipeline/worlds.py`; both are slow to make."""
OWN_SPARK_PROCESS: Final = frozenset({"tests/pipeline/test_session.py"})
LONGEST: Final = (
    SPARK,
    "tests/e2e/test_cluster.py",
    "tests/e2e/test_demo.py",
    "tests/cli/test_pipeline_commands.py",
    "tests/server/test_schemathesis.py",
    "tests/e2e/",
    "tests/providers/test_process.py",
    "tests/plugins/",
    "tests/engine/test_queue_machine.py",
)
"""The longest tests start first, or one process would end long after the others."""
MOST_WORKERS: Final = 8


def group_of(nodeid: str) -> str:
    """Tests of one group run in one process."""
    file = nodeid.partition("::")[0]
    return SPARK if file.startswith(SPARK) and file not in OWN_SPARK_PROCESS else file


def place_of(nodeid: str) -> int:
    return next((place for place, start in enumerate(LONGEST) if group_of(nodeid).startswith(start)), len(LONGEST))


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Whole groups, in the order of collection."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup:
    return ByGroup(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores, because many tests wait for a process or a deadline."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores + 1, MOST_WORKERS)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the random order among tests of the same place."""
    items.sort(key=lambda item: place_of(item.nodeid))
