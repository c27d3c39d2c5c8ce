"""The architecture page names files and packages that exist, and leaves no package out."""

import re
import runpy
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


def test_the_list_of_source_files_is_up_to_date() -> None:
    source_map = runpy.run_path(str(ROOT / "docs/source_map.py"))

    assert source_map["page"]() == source_map["PAGE"].read_text(encoding="utf-8"), "Run `make source-map`."
