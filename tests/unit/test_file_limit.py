"""The limit of open files, changed in a child process."""

import resource
import subprocess
import sys

import pytest

from tinyagi.system.processes import file_limit

RUN = """
import resource, sys
soft, hard, enough = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
from tinyagi.system.processes import file_limit, raise_file_limit
raise_file_limit(enough)
print(file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "enough", "raised"), [(128, 1024, 512, 512), (128, 256, 512, 256), (256, 1024, 200, 256)]
)
def test_the_soft_limit_is_raised_and_never_lowered(soft: int, hard: int, enough: int, raised: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(soft), str(hard), str(enough)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.split() == [str(raised), str(hard)]


def test_file_limit_is_the_soft_limit_of_this_process() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)

    assert file_limit() == (None if soft == resource.RLIM_INFINITY else soft)
