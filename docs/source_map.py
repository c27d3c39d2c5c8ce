"""Writes docs/reference/source.md, the list of all source files: `make source-map`."""

import ast
from itertools import groupby
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = ROOT / "src/tinyagi"
PAGE: Final = ROOT / "docs/reference/source.md"
_HEAD: Final = """\
# Every source file

What each file below `src/tinyagi/` owns, in the words of its first line. [Architecture](../explanation/architecture.md)
shows how the packages depend on each other. This page is generated: `make source-map`.
"""


def page() -> str:
    files = sorted(SOURCE.rglob("*.py"), key=lambda file: (file.parent.relative_to(SOURCE).parts, file.name))
    described = [(file, ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))) for file in files]
    parts = [_HEAD]
    for folder, group in groupby(((file, text) for file, text in described if text), key=lambda pair: pair[0].parent):
        name = folder.relative_to(SOURCE).as_posix()
        parts.append("## The root\n" if name == "." else f"## `{name}/`\n")
        parts.append("| file | what it owns |\n| --- | --- |")
        parts.extend(f"| `{file.name}` | {_first_paragraph(text)} |" for file, text in group)
        parts.append("")
    return "\n".join(parts)


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
