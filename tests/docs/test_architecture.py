"""The architecture page names files and packages that exist, and leaves no package out."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/tinyagi"
PAGE = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")

FILES = sorted(set(re.findall(r"`([\w/]+\.py)`", PAGE)))
PACKAGES = sorted(str(file.parent.relative_to(SOURCE)) for file in SOURCE.rglob("*/__init__.py"))


@pytest.mark.parametrize("name", FILES)
def test_every_file_on_the_page_exists(name: str) -> None:
    assert (SOURCE / name).is_file()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_is_on_the_page(package: str) -> None:
    assert f"`{package}/`" in PAGE


def test_every_import_contract_is_on_the_page() -> None:
    contracts = re.findall(r'^name = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    section = PAGE.split("## Import contracts")[1].lower()

    assert [name for name in contracts[1:] if name.lower() not in section] == []
