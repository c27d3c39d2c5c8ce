"""The Python examples of the documentation run as they are printed."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.server.conftest import Premises, closed_premises, premises

__all__ = ["closed_premises", "premises"]

ROOT = Path(__file__).parents[2]
PAGES = ("docs/howto/use-it-from-python.md", "README.md")
EXAMPLES = [
    pytest.param(example, id=f"{Path(page).stem}-{number}")
    for page in PAGES
    for number, example in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL))
]


@pytest.mark.parametrize("example", EXAMPLES)
async def test_an_example_runs(premises: Premises, example: str) -> None:
    variables = {"TINYAGI_API_PORT": str(premises.port), "TINYAGI_HOME": str(premises.home.path)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", example), env=variables, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        output, errors = await process.communicate()

    assert (process.returncode, errors.decode()) == (0, "")
    assert "echo: " in output.decode()


def test_the_example_of_the_readme_is_short() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

    assert len(example.splitlines()) <= 10
