"""Draws the README's pictures from a real run of the demo: `make pictures`."""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

HERE: Final = Path(__file__).parent
TINYAGI: Final = Path(sys.executable).with_name("tinyagi")
COLUMNS: Final = 104
STYLE: Final = """
<style>
  svg { background: #fff; font-family: system-ui, sans-serif; }
  rect { fill: #f4f6f8; stroke-width: 1.4; }
  text { text-anchor: middle; font-size: 13px; fill: #1c2733; }
  .name { font-weight: 600; }
  .weight { stroke: #fff; stroke-width: 4px; paint-order: stroke; }
</style>"""


def main() -> None:
    output = _run("demo", "--stay")
    home = Path(re.search(r"--home (\S+)", output)[1])  # type: ignore[index]
    try:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "report.html")
            _run("--home", str(home), "pipeline", "report", "--html", str(page))
            graph = re.search(r'<svg class="graph".*?</svg>', page.read_text(), re.DOTALL)
    finally:
        _run("--home", str(home), "stop")
        shutil.rmtree(home.parent)
    if graph is None:
        sys.exit("The report has no graph of hand-offs.")
    drawing = graph[0].replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    (HERE / "handoffs.svg").write_text(drawing.replace(">", f">{STYLE}", 1) + "\n")
    (HERE / "demo.svg").write_text(_terminal(_shown(output)))


def _run(*arguments: str) -> str:
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}
    done = subprocess.run([TINYAGI, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return done.stdout


def _shown(output: str) -> list[str]:
    """The steps with the kill, the first conversation as a tree, and the last line. Spinners are left out."""
    lines = [re.split(r"\r|\x1b\[2K", line)[-1] for line in output.splitlines()]
    plain = [Text.from_ansi(line).plain for line in lines]
    steps = [lines[at] for at, text in enumerate(plain) if text.startswith("·") and "Spark" not in text]
    first = next(at for at, text in enumerate(plain) if "Ada on telegram" in text)
    tree = lines[first : plain.index("", first)]
    result = next(lines[at] for at, text in enumerate(plain) if text.startswith("Nothing lost"))
    return [*steps, "", *tree, "", result]


def _terminal(lines: list[str]) -> str:
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop")
    svg = console.export_svg(title="make demo")
    # Use the reader's own monospace font: a README's picture cannot load one from elsewhere.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    return re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    main()
